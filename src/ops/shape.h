// Sizes and strides: the questions every rule asks.
#pragma once

#include <optional>
#include <span>

#include "ops/infer.h"

namespace saker::ops {

using IntSpan = std::span<const Int>;

// A dimension counted from either end; a 0-d tensor counts as having one. Refuses what is out of range.
int64_t wrapDim(int64_t dim, int64_t rank);
// A set of dimensions, each wrapped; a repeated one is refused. Bit i: dimension i.
uint64_t dimSet(IntSpan dims, int64_t rank);

// Sizes of the broadcast of both; refuses where they do not fit.
Dims broadcast(IntSpan a, IntSpan b);
bool sameSizes(IntSpan a, IntSpan b);
// Refuses sizes of which one is negative.
void requireSizes(IntSpan sizes);
// Refuses where a tensor of sizes `from` cannot be copied into one of sizes `to`.
void requireExpandable(IntSpan from, IntSpan to);

// As c10 computes them: dimensions of size 1 do not count, an empty tensor is contiguous.
bool isContiguous(const TensorType& t);
bool isContiguous(const TensorType& t, MemoryFormat format);
bool isNonOverlappingAndDense(const TensorType& t);
// Exactly the strides that a fresh row-major tensor of these sizes has; no guard.
bool isRowMajor(const TensorType& t);
// Two elements may lie at one address (a stride of 0): such a tensor cannot be written.
bool hasInternalOverlap(const TensorType& t);
// No two elements share an address, for certain; no guard.
bool surelyApart(const TensorType& t);

// Known without a guard.
inline bool surelyEqual(Int a, Int b) { return a.same(b) || (a == b).provablyTrue(); }
inline bool surelyOne(Int size) { return surelyEqual(size, 1); }

// channels_last where the strides look like it, else contiguous.
MemoryFormat suggestMemoryFormat(const TensorType& t);
// Strides of a fresh tensor in a format (not Preserve); refuses a wrong rank.
Dims stridesIn(IntSpan sizes, MemoryFormat format);
// The dimensions, fastest first, in the order that disturbs the given strides least: an insertion sort by the first row
// of strides that tells two dimensions apart. Not a total order (a stride of 0 compares with nothing), so the way of
// sorting is part of the result.
SmallVec<int, 6> memoryOrder(IntSpan sizes, IntSpan strideRows);
Dims stridesInOrder(IntSpan sizes, std::span<const int> order);
// Dense strides in the order of `like`'s strides: what empty_like gives with preserve_format.
Dims denseStridesLike(const TensorType& like);
// The same for given sizes and strides.
Dims denseStrides(IntSpan sizes, IntSpan strides);

Int numel(const TensorType& t);

}  // namespace saker::ops
