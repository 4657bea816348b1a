#include "ops/accept.h"

#include <cmath>
#include <limits>

namespace saker::ops {

namespace {

struct Limits {
  double lowest, highest;
};

// Integers are held to their limits as integers below; of 64-bit ones the double is the nearest one.
Limits limitsOf(DType dtype) {
  switch (dtype) {
    case DType::UInt8:
      return {0, 255};
    case DType::Int8:
      return {-128, 127};
    case DType::Int16:
      return {-32768, 32767};
    case DType::Int32:
      return {-2147483648.0, 2147483647.0};
    case DType::Int64:
      return {-0x1p63, 0x1p63};
    case DType::UInt16:
      return {0, 65535};
    case DType::UInt32:
      return {0, 4294967295.0};
    case DType::UInt64:
      return {0, 0x1p64};
    case DType::Float16:
    case DType::Complex32:
      return {-65504, 65504};
    case DType::BFloat16:
    case DType::BComplex32:
      return {-0x1.fep127, 0x1.fep127};
    case DType::Float32:
    case DType::Complex64:
      return {std::numeric_limits<float>::lowest(), std::numeric_limits<float>::max()};
    case DType::Float8E5M2:
      return {-57344, 57344};
    case DType::Float8E4M3FN:
      return {-448, 448};
    default:
      return {std::numeric_limits<double>::lowest(), std::numeric_limits<double>::max()};
  }
}

bool isUnsigned(DType dtype) {
  return dtype == DType::UInt8 || dtype == DType::UInt16 || dtype == DType::UInt32 || dtype == DType::UInt64;
}

bool partFits(double value, Scalar::Kind kind, DType dtype) {
  bool integral = ir::isIntegral(dtype, false);
  if (std::isnan(value) || std::isinf(value)) return !integral;
  Limits limits = limitsOf(dtype);
  // Negative integers wrap around in unsigned types, as far as their size goes.
  if (isUnsigned(dtype) && kind == Scalar::Kind::Int && value < 0) return -value <= limits.highest;
  return value >= limits.lowest && value <= limits.highest;
}

}  // namespace

void requireFits(const Infer& in, size_t i, DType dtype) {
  Scalar value = in.scalar(i);
  if (!value.known || dtype == DType::Bool) return;
  bool fits = partFits(value.number, value.kind, dtype);
  if (value.kind == Scalar::Kind::Complex && in.arg(i).kind() == Arg::Kind::Complex) {
    double imaginary = in.arg(i).toComplex().imag();
    fits &= ir::isComplex(dtype) ? partFits(imaginary, value.kind, dtype) : imaginary == 0;
  }
  if (!fits) refuse("a number does not fit into " + std::string(ir::name(dtype)));
}

}  // namespace saker::ops
