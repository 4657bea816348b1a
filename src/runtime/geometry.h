// The layout of tensors, in numbers.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>

#include "ir/graph.h"
#include "symbolic/context.h"

namespace saker::runtime {

// The sizes, strides and offset of a type.
struct Geometry {
  c10::DimVector sizes, strides;
  int64_t offset = 0;

  bool hasLayoutOf(const at::Tensor& tensor) const {
    return tensor.strides() == c10::IntArrayRef(strides) && tensor.storage_offset() == offset;
  }
};
Geometry geometryOf(const ir::TensorType& type, const sym::Assignment& symbols);

// An ordinary tensor that sees a storage.
at::Tensor tensorOver(const c10::Storage& storage, const ir::TensorType& type, const Geometry& geometry);

// Symbols as the sizes of the inputs show them: each parameter size that is a plain symbol binds it.
sym::Assignment bindSymbols(const ir::Graph& graph, std::span<const at::Tensor> inputs);
// Names the first symbol whose value lies outside of the range that it was declared with; empty where all lie inside.
std::string outOfRange(const sym::Context& context, const sym::Assignment& symbols);

}  // namespace saker::runtime
