// Calls whose result has the values of one of their arguments, bit by bit.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace saker::ops {

// That argument. The type of the result is the same; its memory is its own.
std::optional<size_t> identityArgument(const ir::Node& node);

}  // namespace saker::ops
