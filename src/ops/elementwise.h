// Operators that work element by element: broadcasting, the computation's dtype, and the memory order of the result,
// which follows the inputs' (what at::TensorIterator does).
#pragma once

#include <initializer_list>
#include <optional>
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

// Adds the result of an elementwise operator. `computed`: the dtype that inputs are converted to first (their own where
// nothing is given). A converted input is a dense copy, which on the CPU decides over the memory order of the result.
void elementwiseResult(Infer& in, std::span<const TensorType* const> inputs, DType dtype,
                       std::optional<DType> computed = std::nullopt);
inline void elementwiseResult(Infer& in, std::initializer_list<const TensorType*> inputs, DType dtype,
                              std::optional<DType> computed = std::nullopt) {
  elementwiseResult(in, std::span<const TensorType* const>(inputs.begin(), inputs.size()), dtype, computed);
}

// The copy that `t` is converted to: dense, in the same memory order.
const TensorType& converted(Infer& in, const TensorType& t, DType dtype);

// Adds a fresh tensor of the sizes and, as far as they are dense, the strides of `like` (what empty_like gives).
void likeResult(Infer& in, const TensorType& like, DType dtype);

}  // namespace saker::ops
