// Tensors that autograd saves for their sizes alone.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

namespace saker::control {

// What the node has saved and no operator of its backward reads: its sizes are taken. Undefined: there is none. Eager
// mode raises where it was written since, as for all that is saved.
at::Tensor savedForSizes(torch::autograd::Node& node);

}  // namespace saker::control
