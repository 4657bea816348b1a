// Making nodes of autograd's graph, whose kind of pointer differs between torch versions.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <memory>
#include <utility>

#include "aten/torch_version/version.h"

namespace saker::aten {

// The pointer that autograd keeps to its nodes.
using NodePtr = decltype(torch::autograd::Edge::function);

// One that does not keep the node.
#if SAKER_TORCH_AT_LEAST(2, 13)
using WeakNodePtr = c10::weak_intrusive_ptr<torch::autograd::Node>;
#else
using WeakNodePtr = std::weak_ptr<torch::autograd::Node>;
#endif

template <typename T, typename... Args>
auto makeNode(Args&&... args) {
#if SAKER_TORCH_AT_LEAST(2, 13)
  return c10::make_intrusive<T>(std::forward<Args>(args)...);
#else
  return std::shared_ptr<T>(new T(std::forward<Args>(args)...), torch::autograd::deleteNode);
#endif
}

// The node that an object of Python's refers to; before 2.13 it does not keep it.
template <typename Held>
NodePtr heldNode(const Held& held) {
  if constexpr (requires { held.lock(); }) {
    return held.lock();
  } else {
    return held;
  }
}

// Lets a node be given what another one is given there.
template <typename Metadata>
void addInputLike(torch::autograd::Node& node, const Metadata& told) {
  if constexpr (requires { told.grad_dtype(); }) {
    node.add_input_metadata(told.options(), told.shape_as_dim_vector(), told.is_tensor_subclass(),
                            told.is_nested_tensor(), told.grad_dtype());
  } else {
    node.add_input_metadata(told.options(), told.shape_as_dim_vector(), told.is_tensor_subclass(),
                            told.is_nested_tensor());
  }
}

// One more input of a node, a gradient of this dtype and these sizes; its number.
template <typename AnyNode>
uint32_t addInput(AnyNode& node, const at::TensorOptions& options, c10::IntArrayRef sizes) {
  c10::SmallVector<c10::SymInt, c10::kDimVectorStaticSize> shape(sizes.begin(), sizes.end());
  if constexpr (requires(at::ScalarType dtype) { node.add_input_metadata(options, shape, false, false, dtype); }) {
    return node.add_input_metadata(options, shape, false, false, c10::typeMetaToScalarType(options.dtype()));
  } else {
    return node.add_input_metadata(options, shape, false, false);
  }
}

}  // namespace saker::aten
