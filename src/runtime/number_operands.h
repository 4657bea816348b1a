// Operators of a tensor and a number. In each call ATen makes a tensor of the number, and casts it to the type that it
// computes in; where nobody sees the calls, both are done once.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

#include "ir/graph.h"

namespace saker::runtime {

// The overload that takes a tensor in the place of the number, where the operator does nothing but call it.
std::optional<c10::OperatorHandle> withTensor(const ir::Node& node);

// The number that is argument `index` as a tensor of the type that the operator computes in. Nothing: ATen decides.
std::optional<at::Tensor> castNumber(const ir::Node& node, size_t index);

}  // namespace saker::runtime
