// Concatenation, which several operators are made of.
#pragma once

#include <span>

#include "ops/infer.h"

namespace saker::ops {

// What cat gives for tensors along a dimension (counted from either end). 1-d tensors without elements do not count.
TensorSpec concatenated(const Infer& in, std::span<const TensorType* const> tensors, int64_t dim);

}  // namespace saker::ops
