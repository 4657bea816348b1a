// Type promotion, as torch.result_type does it.
#pragma once

#include <span>

#include "ir/context.h"
#include "ir/type.h"

namespace saker::ops {

// The smallest type both convert to. Refuses pairs that PyTorch refuses (float8, some unsigned ones).
ir::DType promoteTypes(ir::DType a, ir::DType b);

// Of tensors with dimensions, 0-d tensors and wrapped numbers, in this order of weight; nullptr is skipped.
ir::DType resultType(const ir::Context& context, std::span<const ir::TensorType* const> tensors);

// May a computed value of type `from` be stored as `to` by an in-place or out= operator?
bool canCast(ir::DType from, ir::DType to);

ir::DType defaultComplex(const ir::Context& context);
// Integers and bool become the default dtype; others stay.
ir::DType toFloating(const ir::Context& context, ir::DType dtype);

}  // namespace saker::ops
