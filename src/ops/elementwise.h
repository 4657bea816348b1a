// Operators that work element by element: broadcasting, the computation's dtype, and the memory order of the result,
// which follows the inputs' (what at::TensorIterator does).
#pragma once

#include <initializer_list>
#include <span>

#include "ops/infer.h"

namespace saker::ops {

struct Elementwise {
  Dims sizes;
  Dims strides;
  Device device;
};

// Sizes, strides and device of the result of `inputs` (nullptr is skipped).
Elementwise elementwise(std::span<const TensorType* const> inputs);

// The device all inputs share; a 0-d CPU tensor goes with any. Refuses others.
Device commonDevice(std::span<const TensorType* const> inputs);

// Adds the result of an elementwise operator.
void elementwiseResult(Infer& in, std::span<const TensorType* const> inputs, DType dtype);
inline void elementwiseResult(Infer& in, std::initializer_list<const TensorType*> inputs, DType dtype) {
  elementwiseResult(in, std::span<const TensorType* const>(inputs.begin(), inputs.size()), dtype);
}

}  // namespace saker::ops
