#pragma once

#include "ops/element.h"

namespace saker::ops {

// Argument `i` of clamp or its like, which computes in `dtype`. From torch 2.15 on a number that an integer type does
// not have is no bound, or an error; before it wraps around, as it does in a kernel.
void requireBound(const Infer& in, size_t i, DType dtype);

}  // namespace saker::ops
