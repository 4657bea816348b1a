#include "ops/pointwise.h"

#include <string>

#include "ir/torch_facts.h"
#include "support/check.h"

namespace saker::ops {

const TensorType& operand(const Infer& in, size_t i) {
  bool scalar = in.op().parsed.arguments[i].type.base == ir::SchemaType::Base::Scalar;
  return scalar ? in.wrapped(i) : in.tensor(i);
}

void unaryResult(Infer& in, const TensorType& x, uint16_t accepted, Gives gives) {
  DType computed = gives == Gives::Float ? toFloating(in.context(), x.dtype) : x.dtype;
  require(in, accepted, computed);
  elementwiseResult(in, {&x}, gives == Gives::Bool ? DType::Bool : computed, computed);
}

void binaryResult(Infer& in, const TensorType& a, const TensorType& b, uint16_t accepted, Gives gives) {
  const TensorType* both[] = {&a, &b};
  DType computed = resultType(in.context(), both);
  if (gives == Gives::Float) computed = toFloating(in.context(), computed);
  require(in, accepted, computed);
  elementwiseResult(in, both, gives == Gives::Bool ? DType::Bool : computed, computed);
}

uint16_t clampable(const Infer& in, uint16_t set) {
  return in.context().ambient().torch->clampTakesIntegers ? set | kWideInts : set;
}

void requireBoundFits(const Infer& in, size_t i, DType dtype) {
  bool limited = in.context().ambient().torch->clampTakesIntegers && ir::isIntegral(dtype, false);
  if (!limited) requireFits(in, i, dtype);
}

void extremeOfTwo(Infer& in) { binaryResult(in, operand(in, 0), operand(in, 1), clampable(in, kBool | kReal)); }

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
