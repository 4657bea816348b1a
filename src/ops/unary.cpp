// Operators of one tensor, element by element.
#include <string>

#include "ops/pointwise.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

// Of complex numbers a real one.
void absolute(Infer& in) {
  const TensorType& x = in.tensor(0);
  require(in, kNumbers | kHalfComplex | kFloat8, x.dtype);
  if (!ir::isComplex(x.dtype)) return elementwiseResult(in, {&x}, x.dtype);
  if (in.op().variant == Variant::Inplace) refuse("abs_ of a complex tensor");
  likeResult(in, x, ir::toReal(x.dtype));
}

void angle(Infer& in) {
  const TensorType& x = in.tensor(0);
  if (!ir::isComplex(x.dtype)) return unaryResult(in, x, kFloats, Gives::Float);
  require(in, kComplex, x.dtype);
  in.contiguous(x.sizes(), ir::toReal(x.dtype), x.device);
}

void conjugate(Infer& in) {
  const TensorType& x = in.tensor(0);
  if (in.op().variant != Variant::Inplace) require(in, kAll | kHalfComplex, x.dtype);
  if (in.op().variant == Variant::Out) return elementwiseResult(in, {&x}, x.dtype);
  likeResult(in, x, x.dtype);
}

void isInf(Infer& in) {
  const TensorType& x = in.tensor(0);
  if (ir::isFloat(x.dtype)) return unaryResult(in, x, kFloats, Gives::Bool);
  if (!ir::isComplex(x.dtype)) return likeResult(in, x, DType::Bool);
  // Asked of the real parts, every second number in memory.
  TensorSpec parts(x);
  parts.dtype = ir::toReal(x.dtype);
  for (Int& stride : parts.strides) stride *= 2;
  elementwiseResult(in, {in.context().types().tensor(parts)}, DType::Bool);
}

// Multiplied by a number, so integers become floats.
void timesNumber(Infer& in) {
  const TensorType& x = in.tensor(0);
  // The result is made like the argument first.
  if (in.op().variant == Variant::Functional && ir::isFloat(x.dtype)) {
    require(in, kFloats, x.dtype);
    return likeResult(in, x, x.dtype);
  }
  TensorSpec number;
  number.dtype = DType::Float64;
  number.flags.wrappedNumber = true;
  binaryResult(in, x, *in.context().types().tensor(number), kFloats);
}

void nanToNum(Infer& in) {
  const TensorType& x = in.tensor(0);
  if (ir::isIntegral(x.dtype, true)) return in.contiguous(x.sizes(), x);
  // The result is made like the argument first.
  if (in.op().variant == Variant::Functional) {
    require(in, kFloating, x.dtype);
    return likeResult(in, x, x.dtype);
  }
  unaryResult(in, x, kFloating);
}

template <size_t order, size_t at>
void polygamma(Infer& in) {
  if (in.integer(order) < Int(0)) refuse("polygamma of a negative order");
  unaryResult(in, in.tensor(at), kFloats, Gives::Float);
}

// A sum over p shifted copies.
void mvlgamma(Infer& in) {
  const TensorType& x = in.tensor(0);
  if (in.integer(1) < Int(1)) refuse("mvlgamma needs p >= 1");
  if (x.dtype == DType::Bool) refuse("mvlgamma of a bool tensor");
  DType dtype = toFloating(in.context(), x.dtype);
  require(in, kFloats, dtype);
  in.contiguous(x.sizes(), dtype, x.device);
}

void frexp(Infer& in) {
  const TensorType& x = in.tensor(0);
  require(in, kFloats, x.dtype);
  likeResult(in, x, x.dtype);
  likeResult(in, x, DType::Int32);
}

std::string ofSelf(std::string_view name) { return std::string(name) + "(Tensor self)"; }

}  // namespace

void addUnary(Rows& rows) {
  for (const char* name :
       {"acos",  "acosh", "asin", "asinh",      "atan",  "atanh",   "cos", "cosh", "exp",  "exp2", "expm1", "log",
        "log10", "log1p", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinc", "sinh", "sqrt", "tan",   "tanh"}) {
    addForms(rows, ofSelf(name), unary<kFloating, Gives::Float>);
  }
  for (const char* name : {"digamma", "erf", "erfc", "erfinv", "i0", "lgamma"}) {
    addForms(rows, ofSelf(name), unary<kFloats, Gives::Float>);
  }
  for (const char* name : {"deg2rad", "rad2deg"}) addForms(rows, ofSelf(name), timesNumber);

  Forms exact{.outTraits = kExactOut};
  for (const char* name : {"ceil", "floor", "round", "trunc"}) {
    addForms(rows, ofSelf(name), unary < kReal | kWideInts >, exact);
  }
  addForms(rows, "round.decimals(Tensor self, *, int decimals)", unary<kFloats>,
           {.out = "decimals_out", .outTraits = kExactOut});
  addForms(rows, ofSelf("frac"), unary<kFloats>, exact);
  addForms(rows, ofSelf("neg"), unary < kNumbers | kHalfComplex >, exact);
  addForms(rows, ofSelf("sgn"), unary < kAll | kHalfComplex >, exact);
  addForms(rows, ofSelf("sign"), unary < kBool | kReal >, exact);
  addForms(rows, ofSelf("bitwise_not"), unary<kDiscrete>, exact);
  addForms(rows, ofSelf("logical_not"), unary<kAll, Gives::Bool>);
  addForms(rows, ofSelf("abs"), absolute, exact);
  addForms(rows, ofSelf("angle"), angle, {.inplace = false});
  addForms(rows, ofSelf("_conj_physical"), conjugate, {.inplace = false, .outTraits = kCopiedOut});
  addForms(rows, ofSelf("conj_physical"), conjugate, {.functional = false, .outTraits = kExactOut});
  addForms(rows, "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None)", nanToNum, exact);
  addForms(rows, "logit(Tensor self, float? eps=None)", unary<kFloats, Gives::Float>);

  for (const char* name : {"isneginf", "isposinf", "signbit"}) {
    addForms(rows, ofSelf(name), unary < kBool | kReal | kWideInts, Gives::Bool >,
             {.inplace = false, .outTraits = kExactOut});
  }
  addForms(rows, ofSelf("isnan"), unary<kEvery, Gives::Bool>, {.inplace = false, .outTraits = kCopiedOut});
  addForms(rows, ofSelf("isinf"), isInf, {.inplace = false, .outTraits = kCopiedOut});

  addForms(rows, "polygamma(int n, Tensor self)", polygamma<0, 1>, {.inplace = false});
  rows.push_back({"aten::polygamma_(Tensor(a!) self, int n) -> Tensor(a!)", polygamma<1, 0>, Cost::Pointwise});
  addForms(rows, "mvlgamma(Tensor self, int p)", mvlgamma);
  rows.push_back({"aten::frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)", frexp, Cost::Pointwise});
  rows.push_back(
      {"aten::frexp.Tensor_out(Tensor self, *, Tensor(a!) mantissa, Tensor(b!) exponent) -> (Tensor(a!) "
       "mantissa, Tensor(b!) exponent)",
       frexp, Cost::Pointwise, kExactOut});
}

}  // namespace saker::ops
