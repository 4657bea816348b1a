// What one element is: pointwise operators that programs call now and then.
#include <limits>
#include <numbers>

#include "ir/torch_facts.h"
#include "ops/element.h"
#include "ops/shape.h"

namespace saker::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Num own(Element& e, size_t i = 0) { return e.operand(i, e.type().dtype); }
Num step(Element& e, Num x) { return e.rounded(x, e.type().dtype); }

// ---- shifts ----

template <Num (*shift)(Num, Num)>
Num shifted(Element& e) {
  if (!ir::isIntegral(e.type().dtype, false)) notLowered("shifts of floats");
  return shift(own(e), own(e, 1));
}

// ---- activations ----

// (self, lambd)
Num hardShrink(Element& e) {
  Num x = own(e), bound = step(e, e.scalar(1, x));
  return select((x >= -bound) & (x <= bound), 0, x);
}

Num softShrink(Element& e) {
  Num x = own(e), bound = e.scalar(1, x);
  if (e.in.context().ambient().torch->softShrinkRounds) bound = step(e, bound);
  return select(isNan(x), x, select(x > bound, x - bound, select(x < -bound, x + bound, 0)));
}

// (grad_output, self, lambd), of both; of nan, 0
Num shrinkBackward(Element& e) {
  Num grad = own(e), x = own(e, 1), bound = step(e, e.scalar(2, x));
  return select((x < -bound) | (x > bound), grad, 0);
}

// (self, alpha)
Num celu(Element& e) {
  Num x = own(e);
  if (e.type().dtype != DType::Float32 && e.type().dtype != DType::Float64) notLowered("celu of this dtype");
  Scalar alpha = e.in.scalar(1);
  if (!alpha.known) notLowered("an alpha that changes");
  double number = alpha.kind == Scalar::Kind::Float ? alpha.number : static_cast<double>(alpha.integer);
  return select(x <= 0, expm1(x * (1 / number)) * number, x);
}

Places movedBy(Places places, size_t dim, Int by) {
  places[dim] = places[dim] + Place(by);
  return places;
}

// (self, dim)
Num glu(Element& e) {
  const TensorType& self = e.in.tensor(0);
  auto dim = static_cast<size_t>(wrapDim(e.in.fixed(1, -1), self.rank));
  Num a = e.rounded(e.at(0, e.places()), self.dtype);
  Num b = e.rounded(e.at(0, movedBy(e.places(), dim, e.type().size(dim))), self.dtype);
  return a * (1 / (1 + exp(-b)));
}

// (grad_output, self, dim)
Num gluBackward(Element& e) {
  const TensorType &grads = e.in.tensor(0), &self = e.in.tensor(1);
  auto dim = static_cast<size_t>(wrapDim(e.in.fixed(2), self.rank));
  Int half = grads.size(dim);
  Num at = e.number(e.places()[dim]);
  Num isFirst = at < e.number(Place(half));
  Places before = movedBy(e.places(), dim, Int(0) - half);
  Num zero = e.integer(computed(self.dtype), 0);
  auto read = [&](size_t i, const Places& places) { return e.rounded(e.at(i, places), e.in.tensor(i).dtype); };
  Num ofFirst = e.where(
      isFirst,
      [&] {
        Num s = step(e, 1 / (1 + exp(-read(1, movedBy(e.places(), dim, half)))));
        return s * read(0, e.places());
      },
      zero);
  Num ofSecond = e.where(
      !isFirst,
      [&] {
        Num s = step(e, 1 / (1 + exp(-read(1, e.places()))));
        return (1 - s) * s * read(1, before) * read(0, before);
      },
      zero);
  return select(isFirst, ofFirst, ofSecond);
}

// (grad_output, mask, scale)
Num dropoutBackward(Element& e) {
  Num grad = own(e), mask = e.convert(e.broadcast(1, DType::Bool), DType::Bool);
  Num scale = step(e, e.constant(grad.dtype, e.in.number(2)));
  return grad * select(mask, scale, 0);
}

// ---- arithmetic ----

Num heaviside(Element& e) {
  Num x = own(e), atZero = own(e, 1);
  return select(x == 0, atZero, e.convert(x > 0, atZero.dtype));
}

template <bool positive>
Num isInfinity(Element& e) {
  Num x = e.x();
  return ir::isFloat(x.dtype) ? x == (positive ? kInfinity : -kInfinity) : e.integer(DType::Bool, 0);
}

Num signBit(Element& e) {
  Num x = e.x();
  if (x.dtype == DType::Bool || x.dtype == DType::UInt8) return e.integer(DType::Bool, 0);
  if (!ir::isFloat(x.dtype)) return x < 0;
  return copysign(e.constant(x.dtype, 1), x) < 0;
}

Num logAddExp(Element& e) {
  Num a = own(e), b = own(e, 1);
  Num most = max(a, b);
  return select((abs(a) == kInfinity) & (a == b), a, most + log1p(exp(-abs(a - b))));
}

Num logAddExp2(Element& e) {
  Num a = own(e), b = own(e, 1);
  Num most = max(a, b);
  Num more = log1p(exp2(-abs(a - b))) * std::numbers::log2e;
  return select((abs(a) == kInfinity) & (a == b), a, most + more);
}

Num xlog1py(Element& e) {
  Num a = own(e), b = own(e, 1);
  return select(isNan(b), b, select(a == 0, 0, a * log1p(b)));
}

Num entropy(Element& e) {
  Num x = own(e);
  return select(isNan(x), x, select(x > 0, -x * log(x), select(x == 0, 0, e.constant(x.dtype, -kInfinity))));
}

template <bool toRadians>
Num angleIn(Element& e) {
  return own(e) * (toRadians ? std::numbers::pi / 180 : 180 / std::numbers::pi);
}

// (n, ...) and (n, m, ...)
Num identityMatrix(Element& e) {
  DType dtype = computed(e.type().dtype);
  return select(e.number(e.places()[0]) == e.number(e.places()[1]), e.integer(dtype, 1), e.integer(dtype, 0));
}

}  // namespace

void addSpecialElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule) { rows.push_back({std::string("aten::") + name, rule}); };
  for (const char* name :
       {"bitwise_left_shift.Tensor", "bitwise_left_shift.Tensor_Scalar", "__lshift__.Tensor", "__lshift__.Scalar"}) {
    add(name, shifted<operator<< >);
  }
  for (const char* name :
       {"bitwise_right_shift.Tensor", "bitwise_right_shift.Tensor_Scalar", "__rshift__.Tensor", "__rshift__.Scalar"}) {
    add(name, shifted<operator>> >);
  }
  add("hardshrink", hardShrink);
  add("softshrink", softShrink);
  add("hardshrink_backward", shrinkBackward);
  add("softshrink_backward", shrinkBackward);
  add("celu", celu);
  add("glu", glu);
  add("glu_backward", gluBackward);
  add("native_dropout_backward", dropoutBackward);
  add("heaviside", heaviside);
  add("isposinf", isInfinity<true>);
  add("isneginf", isInfinity<false>);
  add("signbit", signBit);
  add("logaddexp", logAddExp);
  add("logaddexp2", logAddExp2);
  add("special_xlog1py", xlog1py);
  add("special_entr", entropy);
  add("deg2rad", angleIn<true>);
  add("rad2deg", angleIn<false>);
  add("eye", identityMatrix);
  add("eye.m", identityMatrix);
}

}  // namespace saker::ops
