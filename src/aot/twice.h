// Differentiating a compiled function more than once: its gradients as functions that autograd can follow.
#pragma once

#include <torch/csrc/autograd/variable.h>

#include <optional>
#include <vector>

#include "aot/plan.h"

namespace saker::aot {

// Runs the recorded forward (or calls the function, where Functions or subclasses are in it) under autograd on the
// primals as they were before the call, and differentiates it with the tangents that are defined: exactly what eager
// mode would do, to any order. Tangents and gradients are those of a stage; `asked`: the gradients to compute;
// `edges`: by gradient, where it goes; `called`: by tangent, the edge of the result that the caller has.
// `generator`: the state of the random stream before the call. `ran`: if given, the edges of the results of this run,
// by tangent, to which the caller leads what arrives at its results from now on.
torch::autograd::variable_list gradientsByAutograd(
    const Plan& plan, size_t stage, const std::vector<at::Tensor>& primals,
    const torch::autograd::variable_list& tangents, const std::vector<bool>& asked,
    const std::vector<torch::autograd::Edge>& edges, const std::vector<torch::autograd::Edge>& called,
    const at::Tensor& generator, std::vector<torch::autograd::Edge>* ran = nullptr);

}  // namespace saker::aot
