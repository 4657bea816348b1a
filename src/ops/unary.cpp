// Operators of one tensor, element by element.
#include "ops/accept.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/promote.h"

namespace saker::ops {

namespace {

enum class Gives { Same, Float, Bool, Real };

template <uint8_t accepted, Gives gives>
void unary(Infer& in) {
  const TensorType& x = in.tensor(0);
  require(in, accepted, x.dtype);
  DType dtype = x.dtype;
  if constexpr (gives == Gives::Float) dtype = toFloating(in.context(), dtype);
  if constexpr (gives == Gives::Bool) dtype = DType::Bool;
  if constexpr (gives == Gives::Real) dtype = ir::toReal(dtype);
  elementwiseResult(in, {&x}, dtype);
}

// The functional operator, its in-place and its out= form.
void add(Rows& rows, std::string name, InferFn rule, uint32_t traits = kNone) {
  rows.push_back({"aten::" + name + "(Tensor self) -> Tensor", rule, Cost::Pointwise, traits});
  rows.push_back({"aten::" + name + "_(Tensor(a!) self) -> Tensor(a!)", rule, Cost::Pointwise, traits});
  rows.push_back({"aten::" + name + ".out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", rule, Cost::Pointwise, traits});
}

}  // namespace

void addUnary(Rows& rows) {
  for (const char* name : {"acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "exp2", "expm1", "log",
                           "log10", "log1p", "log2", "reciprocal", "rsqrt", "sigmoid", "sin", "sinc", "sinh", "sqrt",
                           "tan", "tanh"}) {
    add(rows, name, unary<kAll, Gives::Float>);
  }
  for (const char* name : {"erf", "erfc", "erfinv", "digamma", "lgamma", "i0"}) {
    add(rows, name, unary<kBool | kReal, Gives::Float>);
  }
  for (const char* name : {"ceil", "floor", "trunc", "round"}) add(rows, name, unary<kReal, Gives::Same>);
}

}  // namespace saker::ops
