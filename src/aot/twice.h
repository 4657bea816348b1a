// Differentiating a compiled function more than once: its gradients as functions that autograd can follow.
#pragma once

#include <torch/csrc/autograd/variable.h>

#include <optional>
#include <vector>

#include "aot/plan.h"

namespace saker::aot {

// Runs the recorded forward (or calls the function, where Functions or subclasses are in it) under autograd on the
// primals as they were before the call, and differentiates it with the tangents that are defined: exactly what eager
// mode would do, to any order. `generator`: the state of the random stream before the call.
torch::autograd::variable_list gradientsByAutograd(const Plan& plan, const std::vector<at::Tensor>& primals,
                                                   const torch::autograd::variable_list& tangents,
                                                   const at::Tensor& generator);

}  // namespace saker::aot
