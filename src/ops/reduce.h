// Reductions: which dimensions go, and what is left.
#pragma once

#include <cstdint>
#include <optional>

#include "ops/infer.h"
#include "ops/shape.h"

namespace saker::ops {

// Bit i: dimension i. A 0-d tensor has none.
uint64_t allDims(size_t rank);

// The dimensions that an int[] argument names; None or an empty list stands for all.
uint64_t reducedDims(const Infer& in, size_t argument, size_t rank);
// The one an int argument names.
uint64_t reducedDim(const Infer& in, size_t argument, size_t rank);

Dims reducedSizes(const TensorType& t, uint64_t dims, bool keep);

// Has no elements. Asks about each size, not about their product.
bool isEmpty(const TensorType& t);
// Refuses to reduce over nothing: what operators without a neutral element do.
void requireElements(const Infer& in, const TensorType& t, uint64_t dims);

// The dtype of the tensor that an out= operator writes first; nothing for other operators.
std::optional<DType> outDType(const Infer& in);

// A fresh row-major result: reductions do not keep the order of the input's strides.
void reduceTo(Infer& in, const TensorType& t, uint64_t dims, bool keep, DType dtype);

}  // namespace saker::ops
