// Operators of two tensors, or a tensor and a number, element by element.
#include "ops/accept.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/promote.h"

namespace saker::ops {

namespace {

enum class Gives { Common, Float, Bool };

struct Pair {
  const TensorType& a;
  const TensorType& b;
};

// Argument 1 is a tensor or a number.
Pair operands(Infer& in) {
  bool scalar = in.op().parsed.arguments[1].type.base == ir::SchemaType::Base::Scalar;
  return {in.tensor(0), scalar ? in.wrapped(1) : in.tensor(1)};
}

template <uint8_t accepted, Gives gives>
void binary(Infer& in) {
  auto [a, b] = operands(in);
  const TensorType* both[] = {&a, &b};
  DType dtype = resultType(in.context(), both);
  require(in, accepted, dtype);
  if constexpr (gives == Gives::Float) dtype = toFloating(in.context(), dtype);
  if constexpr (gives == Gives::Bool) dtype = DType::Bool;
  elementwiseResult(in, both, dtype);
}

// alpha must not be of a wider kind than the result.
void addition(Infer& in) {
  auto [a, b] = operands(in);
  const TensorType* both[] = {&a, &b};
  DType dtype = resultType(in.context(), both);
  require(in, kAll, dtype);
  if (in.given(2)) {
    Scalar alpha = in.scalar(2);
    if (alpha.kind == Scalar::Kind::Bool && dtype != DType::Bool) refuse("a bool alpha needs bool tensors");
    if (alpha.kind == Scalar::Kind::Float && ir::isIntegral(dtype, true)) refuse("a float alpha for integer tensors");
    if (alpha.kind == Scalar::Kind::Complex && !ir::isComplex(dtype)) refuse("a complex alpha for real tensors");
  }
  elementwiseResult(in, both, dtype);
}

}  // namespace

void addBinary(Rows& rows) {
  rows.push_back({"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", addition, Cost::Pointwise});
  rows.push_back(
      {"aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)", addition, Cost::Pointwise});
  rows.push_back({"aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)", addition,
                  Cost::Pointwise});
  rows.push_back({"aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", binary<kAll, Gives::Common>, Cost::Pointwise});
  rows.push_back(
      {"aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)", binary<kAll, Gives::Common>, Cost::Pointwise});
  rows.push_back({"aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)",
                  binary<kAll, Gives::Common>, Cost::Pointwise});
}

}  // namespace saker::ops
