// What one element is: operators of one operand.
#include <limits>

#include "ops/element.h"

namespace saker::ops {
namespace {

// Most operators compute in the dtype of their result.
Num own(Element& e) { return e.operand(0, e.type().dtype); }

template <Num (*f)(Num)>
Num apply(Element& e) {
  return f(own(e));
}

// Of an integer it is the integer.
template <Num (*f)(Num)>
Num applyToFloat(Element& e) {
  Num x = own(e);
  return ir::isFloat(x.dtype) ? f(x) : x;
}

Num identity(Element& e) { return own(e); }
Num reciprocal(Element& e) { return 1 / own(e); }

// Eager mode calls MKL's, which is not always correctly rounded.
Num squareRoot(Element& e) {
  if (computed(e.type().dtype) == e.type().dtype) e.onlyNear("square roots");
  return sqrt(own(e));
}

Num rsqrt(Element& e) {
  if (computed(e.type().dtype) != e.type().dtype) e.onlyNear("half precision that is rounded between at the ends of rows");
  return 1 / sqrt(own(e));
}
Num sigmoid(Element& e) { return 1 / (1 + exp(-own(e))); }

Num erfOf(Element& e) { return erfAs(e.type().dtype, own(e)); }

Num absolute(Element& e) {
  Num x = own(e);
  return x.dtype == DType::Bool || x.dtype == DType::UInt8 ? x : abs(x);
}

Num negative(Element& e) { return -own(e); }

Num frac(Element& e) {
  Num x = own(e);
  return x - trunc(x);
}

Num sign(Element& e) {
  Num x = own(e);
  if (x.dtype == DType::Bool) return x;
  return e.convert(x > 0, x.dtype) - e.convert(x < 0, x.dtype);
}

Num logicalNot(Element& e) { return !e.convert(e.broadcast(0, DType::Bool), DType::Bool); }
Num bitwiseNot(Element& e) { return !own(e); }

Num isNanOf(Element& e) {
  Num x = e.x();
  return ir::isFloat(x.dtype) ? isNan(x) : e.integer(DType::Bool, 0);
}

Num isInfOf(Element& e) {
  Num x = e.x();
  return ir::isFloat(x.dtype) ? abs(x) == std::numeric_limits<double>::infinity() : e.integer(DType::Bool, 0);
}

Num nanToNum(Element& e) {
  Num x = own(e);
  if (!ir::isFloat(x.dtype)) return x;
  DType dtype = e.type().dtype;
  if (dtype != DType::Float32 && dtype != DType::Float64) notLowered("nan_to_num of half precision");
  double largest = dtype == DType::Float32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto given = [&](size_t i, double otherwise) {
    return e.constant(x.dtype, e.in.given(i) ? e.in.number(i) : otherwise);
  };
  Num bounded = select(x == kInfinity, given(2, largest), select(x == -kInfinity, given(3, -largest), x));
  return select(isNan(x), given(1, 0), bounded);
}

// ---- fills ----

Num zero(Element& e) { return e.integer(computed(e.type().dtype), 0); }
Num one(Element& e) { return e.integer(computed(e.type().dtype), 1); }

template <size_t at>
Num filled(Element& e) {
  return e.scalar(at, computed(e.type().dtype));
}

// (self, value): a tensor of one element
Num filledByTensor(Element& e) { return e.operand(1, e.type().dtype); }

// (self, src)
Num copied(Element& e) { return e.operand(1, e.type().dtype); }

// (start, end, step)
template <size_t start, size_t step>
Num range(Element& e) {
  DType dtype = e.type().dtype;
  if (!ir::isIntegral(dtype, false)) notLowered("arange of floats");
  Int first = start == SIZE_MAX ? Int(0) : e.in.integer(start), by = step == SIZE_MAX ? Int(1) : e.in.integer(step);
  return e.number(e.places()[0] * by + Place(first));
}

}  // namespace

// Abramowitz and Stegun 7.1.26: within 1.5e-7, so that numbers near zero lose digits that half precision would show.
Num erfAs(DType dtype, Num x) {
  if (dtype != DType::Float16 && dtype != DType::BFloat16) return erf(x);
  auto number = [&](double value) { return x.in->constant(x.dtype, value); };
  Num t = 1 / fma(abs(x), number(0.3275911), number(1));
  Num sum = number(1.061405429);
  for (double coefficient : {-1.453152027, 1.421413741, -0.284496736, 0.254829592}) {
    sum = fma(sum, t, number(coefficient));
  }
  Num rest = -exp(-(x * x)) * t;
  return copysign(fma(rest, sum, number(1)), x);
}

void addUnaryElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule) { rows.push_back({std::string("aten::") + name, rule}); };
  add("exp", apply<exp>);
  add("exp2", apply<exp2>);
  add("expm1", apply<expm1>);
  add("log", apply<log>);
  add("log2", apply<log2>);
  add("log10", apply<log10>);
  add("log1p", apply<log1p>);
  add("sqrt", squareRoot);
  add("sin", apply<sin>);
  add("cos", apply<cos>);
  add("tan", apply<tan>);
  add("asin", apply<asin>);
  add("acos", apply<acos>);
  add("atan", apply<atan>);
  add("sinh", apply<sinh>);
  add("cosh", apply<cosh>);
  add("tanh", apply<tanh>);
  add("asinh", apply<asinh>);
  add("acosh", apply<acosh>);
  add("atanh", apply<atanh>);
  add("erf", erfOf);
  add("erfc", apply<erfc>);
  add("floor", applyToFloat<floor>);
  add("ceil", applyToFloat<ceil>);
  add("trunc", applyToFloat<trunc>);
  add("round", applyToFloat<round>);
  add("rsqrt", rsqrt);
  add("reciprocal", reciprocal);
  add("sigmoid", sigmoid);
  add("abs", absolute);
  add("neg", negative);
  add("frac", frac);
  add("sign", sign);
  add("sgn", sign);
  add("logical_not", logicalNot);
  add("bitwise_not", bitwiseNot);
  add("isnan", isNanOf);
  add("isinf", isInfOf);
  add("nan_to_num", nanToNum);
  add("_to_copy", identity);
  add("clone", identity);
  add("copy", copied);
  for (const char* name : {"zeros", "zeros_like", "new_zeros", "zero"}) add(name, zero);
  for (const char* name : {"ones", "ones_like", "new_ones"}) add(name, one);
  for (const char* name : {"full", "full_like", "fill.Scalar"}) add(name, filled<1>);
  add("new_full", filled<2>);
  add("scalar_tensor", filled<0>);
  add("fill.Tensor", filledByTensor);
  add("arange", range<SIZE_MAX, SIZE_MAX>);
  add("arange.start", range<0, SIZE_MAX>);
  add("arange.start_step", range<0, 2>);
}

}  // namespace saker::ops
