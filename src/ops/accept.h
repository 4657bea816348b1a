// Which dtypes an operator's kernels exist for, as a set of categories. A rule refuses the others, as eager does.
#pragma once

#include <string>

#include "ops/infer.h"

namespace saker::ops {

enum Accept : uint8_t {
  kBool = 1,
  kInts = 2,     // u8, i8, i16, i32, i64
  kFloats = 4,   // f16, bf16, f32, f64
  kComplex = 8,  // c64, c128 (c32 only where said)
  kReal = kInts | kFloats,
  kNumbers = kInts | kFloats | kComplex,
  kAll = kBool | kNumbers,
  kFloating = kFloats | kComplex,
  kDiscrete = kBool | kInts,
};

inline bool accepts(uint8_t set, DType dtype) {
  switch (ir::category(dtype)) {
    case 'b': return set & kBool;
    case 'i': return (set & kInts) && dtype < DType::UInt16;
    case 'f': return (set & kFloats) && ir::byteSize(dtype) > 1;
    case 'c': return (set & kComplex) && dtype != DType::Complex32;
    default: return false;
  }
}

inline void require(const Infer& in, uint8_t set, DType dtype) {
  if (!accepts(set, dtype)) refuse(in.op().qualified + " is not implemented for " + std::string(ir::name(dtype)));
}

}  // namespace saker::ops
