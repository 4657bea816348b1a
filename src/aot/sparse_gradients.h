// Gradients that are sparse are given as two tensors each: values where the gradient stands, indices behind all others.
#pragma once

#include <torch/csrc/autograd/variable.h>

#include "aot/joint.h"

namespace saker::aot {

void takeSparseApart(Joint& joint, torch::autograd::variable_list& gradients);

}  // namespace saker::aot
