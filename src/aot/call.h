// One call of a compiled function: the forward runs, its backward is tied to the results, and what the function does to
// the caller's tensors is done to them.
#pragma once

#include <optional>
#include <vector>

#include "aot/plan.h"

namespace saker::aot {

// As CompiledFunction's.
std::optional<std::vector<at::Tensor>> call(const std::shared_ptr<const Plan>& plan, std::vector<at::Tensor> arguments,
                                            std::vector<c10::IValue>* numbers);

}  // namespace saker::aot
