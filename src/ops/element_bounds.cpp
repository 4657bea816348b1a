#include "ops/element_bounds.h"

#include <cmath>

#include "ir/torch_facts.h"

namespace saker::ops {

namespace {

bool isHeld(const Scalar& bound, DType dtype) {
  if (!bound.known) return dtype == DType::Int64 && bound.kind == Scalar::Kind::Int;
  bool isSigned = dtype == DType::Int8 || dtype == DType::Int16 || dtype == DType::Int32 || dtype == DType::Int64;
  // One more than the highest.
  double end = std::ldexp(1.0, 8 * ir::byteSize(dtype) - isSigned);
  bool ends = dtype == DType::Int64 && bound.kind == Scalar::Kind::Int;  // as a double it may be one more
  return bound.number >= (isSigned ? -end : 0) && (bound.number < end || ends);
}

}  // namespace

void requireBound(const Infer& in, size_t i, DType dtype) {
  if (!in.context().ambient().torch->clampTakesIntegers || !ir::isIntegral(dtype, false) || !in.given(i)) return;
  if (in.arg(i).isValue() && in.arg(i).toValue()->tensor()) return;
  if (!isHeld(in.scalar(i), dtype)) notLowered("a bound that does not fit into " + std::string(ir::name(dtype)));
}

}  // namespace saker::ops
