// What the normalisation layers share: the dtype of their parameters and statistics, and masked-out gradients.
#pragma once

#include <initializer_list>

#include "ops/infer.h"

namespace saker::ops {

// The dtype of parameters and statistics. On the CPU all parameters are of the input's dtype, or all are float32 beside
// a half input; CUDA keeps the statistics of half inputs in float32. Parameters that are not given are nullptr.
DType statisticsDType(const TensorType& input, std::initializer_list<const TensorType*> parameters);

// Element `i` of a bool[] argument: is this gradient asked for?
bool wanted(const Infer& in, size_t maskArgument, size_t i);

// A gradient that is not asked for is an undefined tensor.
inline void undefinedResult(Infer& in) { in.result(in.context().types().plain(ir::TypeKind::None)); }

}  // namespace saker::ops
