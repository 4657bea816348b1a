// Tensors whose elements are all one number, known when compiling.
#pragma once

#include <functional>
#include <optional>

#include "ir/graph.h"

namespace saker::ops {

// The number as an argument (an int or a float), or nothing.
using KnownNumber = std::function<std::optional<ir::Arg>(const ir::Value* value)>;

// What every element of the node's result is, where `known` says it of its operands. Exact: as the operator computes
// it.
std::optional<ir::Arg> uniformResult(const ir::Node& node, const KnownNumber& known);

// Is the node one that makes such a tensor of numbers, and of nothing else?
bool isFill(const ir::Node& node);

// An operand of the node that a number could stand for without changing a bit of the result, if the type of that stays
// the same: one of two that are added, subtracted or multiplied.
bool mayBeNumber(const ir::Node& node, size_t argument);

}  // namespace saker::ops
