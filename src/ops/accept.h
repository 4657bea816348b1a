// Which dtypes an operator's kernels exist for, as a set of categories. A rule refuses the others, as eager does.
#pragma once

#include <string>

#include "ops/infer.h"

namespace saker::ops {

enum Accept : uint16_t {
  kBool = 1,
  kInts = 2,          // u8, i8, i16, i32, i64
  kFull = 4,          // f32, f64
  kComplex = 8,       // c64, c128
  kHalf = 16,         // f16, bf16
  kHalfComplex = 32,  // c32
  kWideInts = 64,     // u16, u32, u64
  kFloat8 = 128,
  kBComplex = 256,  // bc32
  kFloats = kFull | kHalf,
  kReal = kInts | kFloats,
  kNumbers = kInts | kFloats | kComplex,
  kAll = kBool | kNumbers,
  kFloating = kFloats | kComplex,
  kDiscrete = kBool | kInts,
  kEvery = 511,
};

inline bool accepts(uint16_t set, DType dtype) {
  switch (ir::category(dtype)) {
    case 'b':
      return set & kBool;
    case 'i':
      return set & (dtype < DType::UInt16 ? kInts : kWideInts);
    case 'f':
      return set & (ir::byteSize(dtype) > 2 ? kFull : ir::byteSize(dtype) == 2 ? kHalf : kFloat8);
    case 'c':
      if (dtype == DType::BComplex32) return set & kBComplex;
      return set & (dtype == DType::Complex32 ? kHalfComplex : kComplex);
    default:
      return false;
  }
}

inline void require(const Infer& in, uint16_t set, DType dtype) {
  if (!accepts(set, dtype)) refuse(in.op().qualified + " is not implemented for " + std::string(ir::name(dtype)));
}

// Kernels that fill memory with a number know every dtype but one.
inline void requireFillable(const Infer& in, DType dtype) {
  if (dtype == DType::BComplex32) require(in, kEvery & ~kBComplex, dtype);
}

// Refuses a number (argument `i`) that an element of `dtype` cannot hold: too large, or not real.
void requireFits(const Infer& in, size_t i, DType dtype);

}  // namespace saker::ops
