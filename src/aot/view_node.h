// Views that one operator made several of at a time (unbind, split, chunk) cannot be written in place, so nobody needs
// to know that they are made again behind the graph: they get a node of the compiled function.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <typeinfo>

namespace saker::aot {

// The node stands in the place of the operator's own and does what that does. All else about the views stays: what they
// are views of, how autograd was told that they were made, where their gradients go.
void giveOwnNode(std::span<const at::Tensor> views);
const std::type_info& viewNodeType();

}  // namespace saker::aot
