// Where to find what is differentiated when a function is called again, by tangent.
#pragma once

#include "aot/callers.h"

namespace saker::aot {

// Empty: something is not found again. `results` are those of the joint graph, `outputs` what the function gave.
std::vector<Joint::Root> findRoots(const Joint& joint, const Callers& callers, const std::vector<at::Tensor>& results,
                                   const std::vector<at::Tensor>& outputs);

}  // namespace saker::aot
