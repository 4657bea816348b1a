// What the files of elementwise operators share: the usual rules, and rows for the spellings of one operator.
#pragma once

#include <string_view>

#include "ops/accept.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/promote.h"

namespace saker::ops {

// The dtype of a result, from the dtype that the operands are computed in.
enum class Gives : uint8_t {
  Common,  // the same
  Float,   // the same, but integers are computed as the default dtype
  Bool,
};

// Argument `i` as an operand: a tensor, or a number in the place of one.
const TensorType& operand(const Infer& in, size_t i);

// Adds the result for one operand or two; `accepted` are the dtypes that can be computed in (accept.h).
void unaryResult(Infer& in, const TensorType& x, uint16_t accepted, Gives gives = Gives::Common);
void binaryResult(Infer& in, const TensorType& a, const TensorType& b, uint16_t accepted, Gives gives = Gives::Common);

template <uint16_t accepted, Gives gives = Gives::Common, size_t at = 0>
void unary(Infer& in) {
  unaryResult(in, in.tensor(at), accepted, gives);
}

template <uint16_t accepted, Gives gives = Gives::Common, size_t first = 0, size_t second = 1>
void binary(Infer& in) {
  binaryResult(in, operand(in, first), operand(in, second), accepted, gives);
}

// The dtypes that clamp, maximum and their like take: `set`, and in newer versions of torch u16, u32 and u64 too.
uint16_t clampable(const Infer& in, uint16_t set);
// Refuses a bound (argument `i`) that clamp does not take for elements of `dtype`.
void requireBoundFits(const Infer& in, size_t i, DType dtype);
// maximum, clamp_min by a tensor, and their like.
void extremeOfTwo(Infer& in);

// Refuses numbers that do not fit, for operators that compute half precision in f32.
void requireNumbersFit(const Infer& in, DType dtype);

template <uint16_t accepted>
void unaryWithNumbers(Infer& in) {
  requireNumbersFit(in, in.tensor(0).dtype);
  unaryResult(in, in.tensor(0), accepted);
}

// The spellings that one operator has.
struct Forms {
  bool functional = true;
  bool inplace = true;
  std::string_view out = "out";  // overload of the out= form; empty: there is none
  std::string_view outArgument = "out";
  uint32_t outTraits = kNone;  // beyond those that all forms have
  Cost cost = Cost::Pointwise;
};

// `signature` is that of the functional form: "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)".
void addForms(Rows& rows, std::string_view signature, InferFn rule, const Forms& forms = {}, uint32_t traits = kNone);

}  // namespace saker::ops
