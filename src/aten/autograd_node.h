// Making nodes of autograd's graph, whose kind of pointer differs between torch versions.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <string>
#include <utility>

#include "aten/torch_version.h"

namespace saker::aten {

// The pointer that autograd keeps to its nodes.
using NodePtr = decltype(torch::autograd::Edge::function);

template <typename T, typename... Args>
auto makeNode(Args&&... args) {
#if SAKER_TORCH_AT_LEAST(2, 13)
  return c10::make_intrusive<T>(std::forward<Args>(args)...);
#else
  return std::shared_ptr<T>(new T(std::forward<Args>(args)...), torch::autograd::deleteNode);
#endif
}

// As autograd calls a node in errors about tensors.
inline std::string nameInErrors(const torch::autograd::Node& node) {
#if SAKER_TORCH_AT_LEAST(2, 13)
  return node.forward_op_name();
#else
  return node.name();
#endif
}

}  // namespace saker::aten
