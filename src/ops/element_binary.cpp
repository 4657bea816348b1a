// What one element is: operators of two operands or more.
#include <cmath>

#include "ops/element.h"
#include "ops/element_bounds.h"
#include "ops/promote.h"
#include "ops/shape.h"

namespace saker::ops {
namespace {

const TensorType& typeOf(const Infer& in, size_t i) {
  bool scalar = in.op().parsed.arguments[i].type.base == ir::SchemaType::Base::Scalar;
  return scalar ? in.wrapped(i) : in.tensor(i);
}

struct Pair {
  Num a, b;
};

// Both in the dtype that is computed in.
Pair operands(Element& e, DType dtype, size_t first = 0, size_t second = 1) {
  return {e.operand(first, dtype), e.operand(second, dtype)};
}
Pair own(Element& e) { return operands(e, e.type().dtype); }

// The dtype of a comparison, whose result does not tell it.
DType common(const Element& e, size_t first = 0, size_t second = 1) {
  const TensorType* both[] = {&typeOf(e.in, first), &typeOf(e.in, second)};
  return resultType(e.in.context(), both);
}

// Some kernels take a number as it is, others as the dtype of the tensor: what is seen of half precision.
Num unroundedNumber(Element& e, size_t i, DType dtype) {
  // A tensor of one element counts as a number.
  return surelyOne(numel(typeOf(e.in, i))) ? e.convert(e.broadcast(i, dtype), computed(dtype)) : e.operand(i, dtype);
}
// The second operand only.
Pair ownUnrounded(Element& e) { return {e.operand(0, e.type().dtype), unroundedNumber(e, 1, e.type().dtype)}; }

// (self, other, alpha): one rounding where alpha is not 1
Num plus(Element& e, Num a, Num b, double sign) {
  Scalar alpha = e.in.scalar(2);
  if (alpha.kind == Scalar::Kind::Complex) notLowered("an alpha that is complex");
  if (computed(e.type().dtype) != e.type().dtype && !(alpha.known && alpha.number == 1)) {
    e.onlyNear("half precision that is rounded twice at the ends of rows");
  }
  if (!alpha.known) {
    if (!ir::isFloat(a.dtype)) notLowered("alpha is known only when the graph runs");
    return fma(b, e.rounded(sign > 0 ? e.scalar(2, a) : -e.scalar(2, a), e.type().dtype), a);
  }
  if (a.dtype == DType::Bool) {
    if (sign < 0 || alpha.number == 0) notLowered("a difference of bools");
    return a | b;
  }
  if (alpha.number == 1) return sign > 0 ? a + b : a - b;
  if (!ir::isFloat(a.dtype)) return sign > 0 ? a + b * e.scalar(2, a) : a - b * e.scalar(2, a);
  Num factor = e.rounded(e.constant(a.dtype, sign * alpha.number), e.type().dtype);
  return fma(b, factor, a);
}

Num add(Element& e) {
  auto [a, b] = own(e);
  return plus(e, a, b, 1);
}

Num sub(Element& e) {
  auto [a, b] = own(e);
  return plus(e, a, b, -1);
}

Num rsub(Element& e) {
  auto [a, b] = own(e);
  return plus(e, b, a, -1);
}

Num mul(Element& e) {
  auto [a, b] = ownUnrounded(e);
  return a.dtype == DType::Bool ? a & b : a * b;
}

Num div(Element& e) {
  auto [a, b] = ownUnrounded(e);
  return a / b;
}

// What is divided by: eager mode raises where it is the integer zero.
Num divisor(Element& e, Num b) {
  if (ir::isFloat(b.dtype)) return b;
  if (b.dtype == DType::Bool) notLowered("quotients of bools");
  if (!e.in.arg(1).isValue()) {
    Scalar number = e.in.scalar(1);
    if (number.known && number.integer != 0) return b;
  }
  e.check(b != 0);
  return select(b == 0, 1, b);
}

// A remainder has the sign of what is divided; is that another one than the divisor's?
Num signsDiffer(Num mod, Num b) { return (mod != 0) & ((b < 0) != (mod < 0)); }

// By a tensor of more than one element, every step is rounded.
Num floorDivision(Element& e, Num a, Num b) {
  bool byNumber = surelyOne(numel(typeOf(e.in, 1)));
  auto step = [&](Num x) { return byNumber ? x : e.rounded(x, e.type().dtype); };
  Num mod = a % b;
  if (!ir::isFloat(a.dtype)) return select(signsDiffer(mod, b), a / b - 1, a / b);
  Num quotient = step(step(a - mod) / b);
  quotient = select(signsDiffer(mod, b), step(quotient - 1), quotient);
  Num floored = floor(quotient);
  floored = select(step(quotient - floored) > 0.5, step(floored + 1), floored);
  Num zero = copysign(a.in->constant(a.dtype, 0), a / b);
  return select(b == 0, a / b, select(quotient != 0, floored, zero));
}

Num floorDivide(Element& e) {
  auto [a, b] = ownUnrounded(e);
  return floorDivision(e, a, divisor(e, b));
}

Num divideByMode(Element& e) {
  if (!e.in.given(2)) return div(e);
  auto [a, b] = ownUnrounded(e);
  b = divisor(e, b);
  if (e.in.string(2) != "trunc") return floorDivision(e, a, b);
  if (!ir::isFloat(a.dtype)) return a / b;
  // By a tensor, quotients are rounded first.
  return trunc(typeOf(e.in, 1).rank > 0 ? e.rounded(a / b, e.type().dtype) : a / b);
}

Num fmod(Element& e) {
  auto [a, b] = own(e);
  return a % divisor(e, b);
}

Num remainder(Element& e) {
  auto [a, b] = own(e);
  b = divisor(e, b);
  Num mod = a % b;
  return select(signsDiffer(mod, b), mod + b, mod);
}

// ---- powers ----

Num powerByNumber(Element& e) {
  Num x = e.operand(0, e.type().dtype);
  Scalar exponent = e.in.scalar(1);
  if (!exponent.known || exponent.kind == Scalar::Kind::Complex) notLowered("an exponent that changes");
  double y = exponent.number;
  bool isBrain = e.type().dtype == DType::BFloat16;  // whose products are rounded one by one
  auto step = [&](Num product) { return isBrain ? e.rounded(product, DType::BFloat16) : product; };
  if (y == 0) return e.integer(x.dtype, 1);
  if (y == 1) return x;
  if (y == 2) return x * x;
  if (y == 3) return step(x * x) * x;
  if (!ir::isFloat(x.dtype)) notLowered("powers of integers");
  if (std::abs(y) == 0.5 && e.type().dtype == DType::Float16) notLowered("roots of half precision as powers");
  if (std::abs(y) == 0.5) e.onlyNear("square roots");
  if (y == 0.5) return sqrt(x);
  if (y == -0.5) return 1 / sqrt(x);
  if (y == -1) return 1 / x;
  if (y == -2) return 1 / step(x * x);
  return pow(x, e.operand(1, e.type().dtype));
}

Num power(Element& e) {
  auto [a, b] = own(e);
  if (!ir::isFloat(a.dtype)) notLowered("powers of integers");
  return pow(a, b);
}

// ---- extremes, comparisons, logic ----

Num larger(Num a, Num b) { return a.dtype == DType::Bool ? a | b : max(a, b); }
Num smaller(Num a, Num b) { return a.dtype == DType::Bool ? a & b : min(a, b); }

template <Num (*f)(Num, Num)>
Num apply(Element& e) {
  auto [a, b] = own(e);
  return f(a, b);
}

// Of a bound and an equal number (zeros of two signs) it is the number.
template <Num (*f)(Num, Num)>
Num applyBoundFirst(Element& e) {
  requireBound(e.in, 1, e.type().dtype);
  auto [x, bound] = own(e);
  return f(bound, x);
}

Num largerNumber(Num a, Num b) {
  if (!ir::isFloat(a.dtype)) return larger(a, b);
  return select(isNan(a), b, select(isNan(b), a, max(a, b)));
}
Num smallerNumber(Num a, Num b) {
  if (!ir::isFloat(a.dtype)) return smaller(a, b);
  return select(isNan(a), b, select(isNan(b), a, min(a, b)));
}

// (self, min, max)
Num clamp(Element& e) {
  for (size_t i : {1, 2}) requireBound(e.in, i, e.type().dtype);
  Num x = e.operand(0, e.type().dtype);
  if (e.in.given(1)) x = larger(e.operand(1, e.type().dtype), x);
  if (e.in.given(2)) x = smaller(e.operand(2, e.type().dtype), x);
  return x;
}

Num equal(Num a, Num b) { return a == b; }
Num unequal(Num a, Num b) { return a != b; }
Num less(Num a, Num b) { return a < b; }
Num notMore(Num a, Num b) { return a <= b; }
Num more(Num a, Num b) { return a > b; }
Num notLess(Num a, Num b) { return a >= b; }

template <Num (*f)(Num, Num)>
Num compare(Element& e) {
  auto [a, b] = operands(e, common(e));
  return f(a, b);
}

template <Num (*f)(Num, Num)>
Num combineTruth(Element& e) {
  auto truth = [&](size_t i) { return e.convert(e.broadcast(i, DType::Bool), DType::Bool); };
  return f(truth(0), truth(1));
}

// (condition, self, other)
Num where(Element& e) {
  Num condition = e.convert(e.broadcast(0, DType::Bool), DType::Bool);
  auto [a, b] = operands(e, e.type().dtype, 1, 2);
  return select(condition, a, b);
}

// (self, mask, value)
Num maskedFill(Element& e) {
  Num condition = e.convert(e.broadcast(1, DType::Bool), DType::Bool);
  auto [a, b] = operands(e, e.type().dtype, 0, 2);
  return select(condition, b, a);
}

// ---- three operands ----

// (self, tensor1, tensor2, value)
Num addcmul(Element& e) {
  DType dtype = e.type().dtype;
  Num self = e.operand(0, dtype), a = e.operand(1, dtype), b = e.operand(2, dtype);
  if (!ir::isFloat(self.dtype)) return self + e.scalar(3, self) * a * b;
  return fma(e.scalar(3, self) * a, b, self);
}

Num addcdiv(Element& e) {
  DType dtype = e.type().dtype;
  Num self = e.operand(0, dtype), a = e.operand(1, dtype), b = e.operand(2, dtype);
  return self + e.scalar(3, self) * a / b;
}

// (self, end, weight)
Num lerp(Element& e) {
  DType dtype = e.type().dtype;
  Num from = e.operand(0, dtype), to = e.operand(1, dtype), weight = unroundedNumber(e, 2, dtype);
  Num change = to - from;
  return select(abs(weight) < 0.5, fma(weight, change, from), fma(weight - 1, change, to));
}

Num xlogy(Element& e) {
  auto [a, b] = own(e);
  return select(isNan(b), b, select(a == 0, e.constant(a.dtype, 0), a * e.rounded(log(b), e.type().dtype)));
}

}  // namespace

void addBinaryElements(ElementRows& rows) {
  auto add = [&](std::string name, ElementFn rule) { rows.push_back({"aten::" + name, rule}); };
  auto both = [&](std::string name, ElementFn rule) {
    add(name + ".Tensor", rule);
    add(name + ".Scalar", rule);
  };
  both("add", ops::add);
  both("sub", sub);
  both("rsub", rsub);
  both("mul", mul);
  both("div", div);
  add("div.Tensor_mode", divideByMode);
  add("div.Scalar_mode", divideByMode);
  add("floor_divide", floorDivide);
  add("floor_divide.Scalar", floorDivide);
  both("fmod", fmod);
  both("remainder", remainder);
  add("pow.Tensor_Scalar", powerByNumber);
  add("pow.Tensor_Tensor", power);
  add("pow.Scalar", power);
  add("maximum", apply<larger>);
  add("minimum", apply<smaller>);
  add("fmax", apply<largerNumber>);
  add("fmin", apply<smallerNumber>);
  add("atan2", apply<atan2>);
  both("copysign", apply<copysign>);
  both("eq", compare<equal>);
  both("ne", compare<unequal>);
  both("lt", compare<less>);
  both("le", compare<notMore>);
  both("gt", compare<more>);
  both("ge", compare<notLess>);
  add("logical_and", combineTruth<operator&>);
  add("logical_or", combineTruth<operator| >);
  add("logical_xor", combineTruth<operator^ >);
  both("bitwise_and", apply<operator&>);
  both("bitwise_or", apply<operator| >);
  both("bitwise_xor", apply<operator^ >);
  add("clamp", clamp);
  add("clamp.Tensor", clamp);
  for (const char* name : {"clamp_min", "clamp_min.Tensor"}) add(name, applyBoundFirst<larger>);
  for (const char* name : {"clamp_max", "clamp_max.Tensor"}) add(name, applyBoundFirst<smaller>);
  add("where.self", where);
  add("masked_fill.Scalar", maskedFill);
  add("masked_fill.Tensor", maskedFill);
  add("addcmul", addcmul);
  add("addcdiv", addcdiv);
  add("lerp.Scalar", lerp);
  add("lerp.Tensor", lerp);
  add("xlogy.Tensor", xlogy);
}

}  // namespace saker::ops
