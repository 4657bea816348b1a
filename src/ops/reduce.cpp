#include "ops/reduce.h"

#include <bit>
#include <string>

namespace saker::ops {

namespace {

void requireFewDims(size_t rank) {
  if (rank > 64) unsupported("a tensor of more than 64 dimensions");
}

}  // namespace

uint64_t allDims(size_t rank) {
  requireFewDims(rank);
  return rank == 64 ? ~uint64_t{0} : (uint64_t{1} << rank) - 1;
}

uint64_t reducedDim(const Infer& in, size_t argument, size_t rank) {
  requireFewDims(rank);
  return uint64_t{1} << wrapDim(in.fixed(argument), static_cast<int64_t>(rank));
}

uint64_t reducedDims(const Infer& in, size_t argument, size_t rank) {
  if (!in.given(argument)) return allDims(rank);
  const Arg& arg = in.arg(argument);
  if (arg.isList() && arg.toList().empty()) return allDims(rank);
  return dimSet(in.ints(argument), static_cast<int64_t>(rank));
}

Dims reducedSizes(const TensorType& t, uint64_t dims, bool keep) {
  Dims sizes;
  for (size_t i = 0; i < t.rank; ++i) {
    if (!(dims >> i & 1)) {
      sizes.push_back(t.size(i));
    } else if (keep) {
      sizes.push_back(1);
    }
  }
  return sizes;
}

bool isEmpty(const TensorType& t) {
  for (size_t i = 0; i < t.rank; ++i) {
    if (t.size(i) == Int(0)) return true;
  }
  return false;
}

void requireElements(const Infer& in, const TensorType& t, uint64_t dims) {
  for (size_t i = 0; i < t.rank; ++i) {
    if ((dims >> i & 1) && t.size(i) == Int(0)) {
      refuse(in.op().qualified + ": nothing to reduce over in dimension " + std::to_string(i));
    }
  }
}

std::optional<DType> outDType(const Infer& in) {
  if (in.op().variant != Variant::Out) return std::nullopt;
  return in.tensor(static_cast<size_t>(std::countr_zero(in.op().writes))).dtype;
}

void reduceTo(Infer& in, const TensorType& t, uint64_t dims, bool keep, DType dtype) {
  in.contiguous(reducedSizes(t, dims, keep), dtype, t.device);
}

}  // namespace saker::ops
