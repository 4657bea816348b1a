#include "ops/pointwise.h"

#include <cmath>
#include <limits>
#include <string>

#include "support/check.h"

namespace saker::ops {

const TensorType& operand(const Infer& in, size_t i) {
  bool scalar = in.op().parsed.arguments[i].type.base == ir::SchemaType::Base::Scalar;
  return scalar ? in.wrapped(i) : in.tensor(i);
}

void unaryResult(Infer& in, const TensorType& x, uint8_t accepted, Gives gives) {
  DType computed = gives == Gives::Float ? toFloating(in.context(), x.dtype) : x.dtype;
  require(in, accepted, computed);
  elementwiseResult(in, {&x}, gives == Gives::Bool ? DType::Bool : computed, computed);
}

void binaryResult(Infer& in, const TensorType& a, const TensorType& b, uint8_t accepted, Gives gives) {
  const TensorType* both[] = {&a, &b};
  DType computed = resultType(in.context(), both);
  if (gives == Gives::Float) computed = toFloating(in.context(), computed);
  require(in, accepted, computed);
  elementwiseResult(in, both, gives == Gives::Bool ? DType::Bool : computed, computed);
}

namespace {

struct Bounds {
  double low, high;
};

// The finite values of a dtype. Negative integers wrap around in unsigned types, as far as their size fits.
Bounds boundsOf(DType dtype) {
  switch (dtype) {
    case DType::UInt8:
      return {-255, 255};
    case DType::Int8:
      return {-128, 127};
    case DType::Int16:
      return {-32768, 32767};
    case DType::UInt16:
      return {-65535, 65535};
    case DType::Int32:
      return {-0x1p31, 0x1p31 - 1};
    case DType::UInt32:
      return {-(0x1p32 - 1), 0x1p32 - 1};
    case DType::Int64:
      return {-0x1p63, 0x1p63};
    case DType::UInt64:
      return {-0x1p64, 0x1p64};
    case DType::Float16:
    case DType::Complex32:
      return {-65504, 65504};
    case DType::BFloat16:
      return {-0x1.fep127, 0x1.fep127};
    case DType::Float32:
    case DType::Complex64:
      return {-0x1.fffffep127, 0x1.fffffep127};
    default:
      return {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  }
}

bool isUnsigned(DType dtype) {
  return dtype == DType::UInt8 || (ir::isIntegral(dtype, false) && dtype >= DType::UInt16);
}

bool fits(double value, DType dtype) {
  bool integral = ir::isIntegral(dtype, false);
  if (std::isnan(value)) return !integral;
  if (std::isinf(value)) return !integral;
  Bounds bounds = boundsOf(dtype);
  return value >= bounds.low && value <= bounds.high;
}

}  // namespace

void requireFits(const Infer& in, size_t i, DType dtype) {
  Scalar value = in.scalar(i);
  if (dtype == DType::Bool || !value.known) return;
  bool wraps = value.kind == Scalar::Kind::Bool || value.kind == Scalar::Kind::Int;
  bool ok = fits(value.number, dtype) && (wraps || value.number >= 0 || !isUnsigned(dtype));
  if (value.kind == Scalar::Kind::Complex) {
    double imaginary = in.arg(i).toComplex().imag();
    ok = ok && (ir::isComplex(dtype) ? fits(imaginary, dtype) : imaginary == 0);
  }
  if (!ok) refuse(in.op().qualified + ": the number does not fit into " + std::string(ir::name(dtype)));
}

void requireNumbersFit(const Infer& in, DType dtype) {
  if (dtype == DType::Float16 || dtype == DType::BFloat16) dtype = DType::Float32;
  for (size_t i = 0; i < in.op().parsed.arguments.size(); ++i) {
    bool number = in.op().parsed.arguments[i].type.base == ir::SchemaType::Base::Scalar;
    if (number && in.given(i)) requireFits(in, i, dtype);
  }
}

void addForms(Rows& rows, std::string_view signature, InferFn rule, const Forms& forms, uint32_t traits) {
  size_t open = signature.find('(');
  SAKER_CHECK(open != std::string_view::npos && signature.ends_with(')'), "a signature has no arguments");
  std::string_view name = signature.substr(0, open), overload;
  if (size_t dot = name.find('.'); dot != std::string_view::npos) {
    overload = name.substr(dot);
    name = name.substr(0, dot);
  }
  std::string arguments(signature.substr(open + 1, signature.size() - open - 2));
  std::string plain = "aten::" + std::string(name);
  auto row = [&](std::string schema, uint32_t more) {
    rows.push_back({std::move(schema), rule, forms.cost, traits | more});
  };
  if (forms.functional) row("aten::" + std::string(signature) + " -> Tensor", kNone);
  if (forms.inplace) {
    SAKER_CHECK(arguments.starts_with("Tensor "), "the first argument of an in-place form must be a tensor");
    row(plain + "_" + std::string(overload) + "(Tensor(a!)" + arguments.substr(6) + ") -> Tensor(a!)", kNone);
  }
  if (!forms.out.empty()) {
    std::string separator = arguments.find("*, ") == std::string::npos ? ", *, " : ", ";
    row(plain + "." + std::string(forms.out) + "(" + arguments + separator + "Tensor(a!) " +
            std::string(forms.outArgument) + ") -> Tensor(a!)",
        forms.outTraits);
  }
}

}  // namespace saker::ops
