// Arithmetic of two tensors, or a tensor and a number, element by element.
#include <string>

#include "ir/torch_facts.h"
#include "ops/pointwise.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

// alpha must not be of a wider kind than the result.
void requireAlpha(const Infer& in, DType dtype) {
  if (!in.given(2)) return;
  Scalar alpha = in.scalar(2);
  if (alpha.kind == Scalar::Kind::Bool && dtype != DType::Bool) refuse("a bool alpha needs bool tensors");
  if (alpha.kind == Scalar::Kind::Float && ir::isIntegral(dtype, true)) refuse("a float alpha for integer tensors");
  if (alpha.kind == Scalar::Kind::Complex && !ir::isComplex(dtype)) refuse("a complex alpha for real tensors");
  requireFits(in, 2, dtype);
}

void sum(Infer& in, const TensorType& a, const TensorType& b) {
  const TensorType* both[] = {&a, &b};
  DType dtype = resultType(in.context(), both);
  require(in, kAll | kHalfComplex, dtype);
  requireAlpha(in, dtype);
  elementwiseResult(in, both, dtype, dtype);
}

void addition(Infer& in) { sum(in, operand(in, 0), operand(in, 1)); }

template <size_t first, size_t second>
void subtraction(Infer& in) {
  const TensorType &a = operand(in, first), &b = operand(in, second);
  if (a.dtype == DType::Bool || b.dtype == DType::Bool) refuse("subtraction with a bool tensor");
  sum(in, a, b);
}

void roundedDivision(Infer& in) {
  if (!in.given(2)) return binary<kFloating, Gives::Float>(in);
  std::string_view mode = in.string(2);
  if (mode != "floor" && mode != "trunc") refuse("div knows the rounding modes floor and trunc");
  binary<kReal>(in);
}

// Raised to 0 or 1 any dtype will do: nothing is computed.
bool isZeroOrOne(const Infer& in, size_t i) {
  Scalar value = in.scalar(i);
  if (!value.known || (value.number != 0 && value.number != 1)) return false;
  return value.kind != Scalar::Kind::Complex || in.arg(i).toComplex().imag() == 0;
}

// Operand `last` is the kernel's second: 8-bit floats are not multiplied with a single element there.
template <size_t last>
void product(Infer& in) {
  const TensorType &a = operand(in, 0), &b = operand(in, 1);
  if (accepts(kFloat8, a.dtype) || accepts(kFloat8, b.dtype)) {
    const TensorType* both[] = {&a, &b};
    if (accepts(kFloat8, resultType(in.context(), both)) && numel(last == 0 ? a : b) == Int(1)) {
      refuse(in.op().qualified + " is not implemented for 8-bit floats and a single element");
    }
  }
  binaryResult(in, a, b, kAll | kHalfComplex | kWideInts | kFloat8);
}

void powerOfTensor(Infer& in) {
  const TensorType& base = in.tensor(0);
  Scalar exponent = in.scalar(1);
  if (ir::isIntegral(base.dtype, true) && ir::isIntegral(exponent.dtype(), true)) {
    if (!exponent.known) unsupported("an integer raised to a power that is not known");
    if (exponent.integer < 0) refuse("an integer raised to a negative integer");
  }
  const TensorType* both[] = {&base, &in.wrapped(1)};
  DType dtype = resultType(in.context(), both);
  if (!isZeroOrOne(in, 1)) {
    require(in, kNumbers, dtype);
    requireFits(in, 1, dtype);
  }
  elementwiseResult(in, {&converted(in, base, dtype)}, dtype);
}

void powerOfNumber(Infer& in) {
  const TensorType& exponent = in.tensor(1);
  const TensorType* both[] = {&in.wrapped(0), &exponent};
  DType dtype = resultType(in.context(), both);
  Scalar base = in.scalar(0);
  bool one = base.known && base.kind != Scalar::Kind::Bool && base.kind != Scalar::Kind::Complex && base.number == 1;
  if (!one) require(in, kNumbers, dtype);
  in.contiguous(exponent.sizes(), dtype, exponent.device);
}

// The first times two to the power of the second; of a float and an integer a kernel of its own.
void loadExponent(Infer& in) {
  const TensorType &x = in.tensor(0), &exponent = in.tensor(1);
  if (ir::isFloat(x.dtype) && ir::isIntegral(exponent.dtype, true)) {
    require(in, kFloats, x.dtype);
    require(in, kInts, exponent.dtype);
    if (in.op().variant == Variant::Out && in.tensor(2).dtype != x.dtype) refuse("ldexp needs out= of its own dtype");
    return elementwiseResult(in, {&x, &exponent}, x.dtype);
  }
  if (in.op().variant == Variant::Out && !(isRowMajor(x) && isRowMajor(exponent))) {
    unsupported("ldexp of other than row-major tensors with out=");
  }
  TensorSpec two;
  two.dtype = ir::isComplex(x.dtype) ? DType::Complex128 : DType::Float64;
  two.flags.wrappedNumber = true;
  const TensorType* both[] = {in.context().types().tensor(two), &exponent};
  DType dtype = resultType(in.context(), both);
  require(in, kFloating, dtype);
  TensorSpec power(exponent);
  power.dtype = dtype;
  // Two is a tensor of the first's dtype, a number where that is f32 or integral: then the power is row-major.
  bool number = ir::isIntegral(x.dtype, true) || x.dtype == DType::Float32;
  power.strides = number ? ir::contiguousStrides(power.sizes) : denseStridesLike(exponent);
  binaryResult(in, x, *in.context().types().tensor(power), kFloating);
}

void heaviside(Infer& in) {
  const TensorType &x = in.tensor(0), &values = in.tensor(1);
  if (x.dtype != values.dtype) refuse("heaviside of tensors of different dtypes");
  binaryResult(in, x, values, kBool | kReal);
}

// A complex number from two real ones.
template <uint16_t accepted>
void complexFromParts(Infer& in) {
  const TensorType &a = in.tensor(0), &b = in.tensor(1);
  if (a.dtype != b.dtype || a.dtype == DType::BFloat16) refuse("the parts of a complex number must be of one dtype");
  require(in, accepted, a.dtype);
  elementwiseResult(in, {&a, &b}, ir::toComplex(a.dtype));
}

void polar(Infer& in) {
  in.context().ambient().torch->polarTakesHalf ? complexFromParts<kFloats>(in) : complexFromParts<kFull>(in);
}

std::string ofPair(std::string_view name) { return std::string(name) + "(Tensor self, Tensor other)"; }

void addSums(Rows& rows) {
  Forms copied{.out = "Scalar_out", .outTraits = kCopiedOut};
  addForms(rows, "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)", addition);
  addForms(rows, "add.Scalar(Tensor self, Scalar other, Scalar alpha=1)", addition, copied);
  addForms(rows, "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)", subtraction<0, 1>);
  addForms(rows, "sub.Scalar(Tensor self, Scalar other, Scalar alpha=1)", subtraction<0, 1>, copied);
  addForms(rows, "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)", subtraction<1, 0>,
           {.inplace = false, .out = "Tensor_out", .outTraits = kCopiedOut});
  addForms(rows, "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1)", subtraction<1, 0>,
           {.inplace = false, .out = "Scalar_out", .outTraits = kCopiedOut});
}

void addProducts(Rows& rows) {
  Forms copied{.out = "Scalar_out", .outTraits = kCopiedOut};
  addForms(rows, "mul.Tensor(Tensor self, Tensor other)", product<1>);
  addForms(rows, "mul.Scalar(Tensor self, Scalar other)", product<0>, copied);
  addForms(rows, "div.Tensor(Tensor self, Tensor other)", binary<kFloating, Gives::Float>);
  addForms(rows, "div.Scalar(Tensor self, Scalar other)", binary<kFloating, Gives::Float>, copied);
  // Integers divided by zero raise.
  addForms(rows, "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode)", roundedDivision,
           {.out = "out_mode"}, kFailsOnData);
  addForms(rows, "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode)", roundedDivision,
           {.out = "Scalar_mode_out", .outTraits = kCopiedOut}, kFailsOnData);
  addForms(rows, ofPair("floor_divide"), binary<kReal>, {.inplace = false}, kFailsOnData);
  addForms(rows, "floor_divide.Tensor(Tensor self, Tensor other)", binary<kReal>, {.functional = false, .out = ""},
           kFailsOnData);
  addForms(rows, "floor_divide.Scalar(Tensor self, Scalar other)", binary<kReal>, copied, kFailsOnData);
  for (std::string name : {"fmod", "remainder"}) {
    addForms(rows, name + ".Tensor(Tensor self, Tensor other)", binary<kReal>, {.out = "Tensor_out"}, kFailsOnData);
    addForms(rows, name + ".Scalar(Tensor self, Scalar other)", binary<kReal>, {.out = "Scalar_out"}, kFailsOnData);
  }
  addForms(rows, "remainder.Scalar_Tensor(Scalar self, Tensor other)", binary<kReal>,
           {.inplace = false, .out = "Scalar_Tensor_out", .outTraits = kCopiedOut}, kFailsOnData);
}

void addPowers(Rows& rows) {
  Forms noInplace{.inplace = false};
  addForms(rows, "pow.Tensor_Tensor(Tensor self, Tensor exponent)", binary<kNumbers>,
           {.inplace = false, .out = "Tensor_Tensor_out"});
  addForms(rows, "pow.Tensor_Scalar(Tensor self, Scalar exponent)", powerOfTensor,
           {.inplace = false, .out = "Tensor_Scalar_out"});
  addForms(rows, "pow.Scalar(Scalar self, Tensor exponent)", powerOfNumber, {.inplace = false, .out = "Scalar_out"});
  addForms(rows, "pow.Tensor(Tensor self, Tensor exponent)", binary<kNumbers>, {.functional = false, .out = ""});
  addForms(rows, "pow.Scalar(Tensor self, Scalar exponent)", powerOfTensor, {.functional = false, .out = ""});
  addForms(rows, "ldexp.Tensor(Tensor self, Tensor other)", loadExponent, noInplace);
  addForms(rows, ofPair("ldexp"), loadExponent, {.functional = false, .out = ""});
  addForms(rows, ofPair("logaddexp"), binary<kFloating>, noInplace);
  addForms(rows, ofPair("logaddexp2"), binary<kFloats>, noInplace);
  addForms(rows, "xlogy.Tensor(Tensor self, Tensor other)", binary<kFloats, Gives::Float>, {.out = "OutTensor"});
  addForms(rows, "xlogy.Scalar_Self(Scalar self, Tensor other)", binary<kFloats, Gives::Float>,
           {.inplace = false, .out = "OutScalar_Self"});
  addForms(rows, "xlogy.Scalar_Other(Tensor self, Scalar other)", binary<kFloats, Gives::Float>,
           {.out = "OutScalar_Other"});
}

}  // namespace

void addBinary(Rows& rows) {
  addSums(rows);
  addProducts(rows);
  addPowers(rows);
  Forms noInplace{.inplace = false};
  addForms(rows, ofPair("atan2"), binary<kFloats, Gives::Float>);
  for (const char* name : {"hypot", "nextafter"}) addForms(rows, ofPair(name), binary<kFloats>);
  for (const char* name : {"gcd", "lcm"}) addForms(rows, ofPair(name), binary<kInts>);
  for (const char* name : {"maximum", "minimum", "fmax", "fmin"}) {
    addForms(rows, ofPair(name), extremeOfTwo, noInplace);
  }
  addForms(rows, "copysign.Tensor(Tensor self, Tensor other)", binary<kFloats, Gives::Float>);
  addForms(rows, "copysign.Scalar(Tensor self, Scalar other)", binary<kFloats, Gives::Float>, {.out = "Scalar_out"});
  addForms(rows, "heaviside(Tensor self, Tensor values)", heaviside, {.outTraits = kExactOut});
  addForms(rows, "complex(Tensor real, Tensor imag)", complexFromParts<kFloats>,
           {.inplace = false, .outTraits = kExactOut});
  addForms(rows, "polar(Tensor abs, Tensor angle)", polar, {.inplace = false, .outTraits = kExactOut});
}

}  // namespace saker::ops
