// Where to find what is differentiated when a function is called again, by tangent.
#pragma once

#include "aot/callers.h"
#include "aot/paths.h"

namespace saker::aot {

// Empty: something is not found again. `results` are those of the joint graph, `outputs` what the function gave.
std::vector<Joint::Root> findRoots(const Joint& joint, const Callers& callers, const std::vector<at::Tensor>& results,
                                   const std::vector<at::Tensor>& outputs);

// Writes down, by tangent, where its root leads to, which roots are of one node, and when nodes were made.
void noteRoots(Joint& joint, const std::vector<torch::autograd::Edge>& roots,
               const std::vector<torch::autograd::Edge>& ends, const Paths& paths);

}  // namespace saker::aot
