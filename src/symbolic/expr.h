// Expressions over integers, booleans and floats: immutable, hash-consed in a Context, always in canonical form,
// so that two expressions of one context are equal exactly when their pointers are.
//
// Canonical form. An integer is a constant, an atom (symbol, floordiv, mod, min, max, float rounded to int), a
// product (coefficient * sorted atoms) or a sum (constant + sorted products); sums whose product would have too many
// terms stay factors of a product, as if they were atoms. Comparisons of integers are kept
// as `d == 0`, `d != 0` and `d <= 0` with the common factor divided out; `not` is pushed down to them.
// Integers are mathematical ones: arithmetic that leaves 64 bits throws Overflow. Division and modulo round
// towards minus infinity, as Python's do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "symbolic/range.h"

namespace saker::sym {

class Context;

enum class Kind : uint8_t {
  // Integers.
  Const,     // value
  Symbol,    // value: index into the context's symbols
  Mul,       // value: coefficient; operands: atoms, sorted, repeated for powers
  Add,       // value: constant; operands: atoms and products, sorted
  FloorDiv,  // operands: numerator, denominator
  Mod,       // operands: numerator, denominator
  Min,       // operands: two or more, sorted
  Max,
  ToInt,  // value: FloatOp that rounds (Floor, Ceil, Trunc, Round); operand: a float
  // Booleans.
  BoolConst,   // value
  BoolSymbol,  // value: index into the context's symbols
  Eq,          // operand d: d == 0. Two operands: floats
  Ne,
  Le,  // operand d: d <= 0. Two operands: floats, a <= b
  Lt,  // floats only
  And,
  Or,
  Not,  // of a BoolSymbol or of a comparison of floats
  // Floats: evaluated and folded, never rearranged.
  FloatConst,   // number
  FloatSymbol,  // value: index into the context's symbols
  Float,        // value: FloatOp; operands
};

// Operators of floats: name, number of operands.
#define SAKER_FLOAT_OPS(X) \
  X(FromInt, 1)            \
  X(Add, 2)                \
  X(Sub, 2)                \
  X(Mul, 2)                \
  X(Div, 2)                \
  X(FloorDiv, 2)           \
  X(Mod, 2)                \
  X(Pow, 2)                \
  X(Neg, 1)                \
  X(Abs, 1)                \
  X(Min, 2)                \
  X(Max, 2)                \
  X(Sqrt, 1)               \
  X(Exp, 1)                \
  X(Log, 1)                \
  X(Log2, 1)               \
  X(Sin, 1)                \
  X(Cos, 1)                \
  X(Tan, 1)                \
  X(Asin, 1)               \
  X(Acos, 1)               \
  X(Atan, 1)               \
  X(Sinh, 1)               \
  X(Cosh, 1)               \
  X(Tanh, 1)               \
  X(Floor, 1)              \
  X(Ceil, 1)               \
  X(Trunc, 1)              \
  X(Round, 1)              \
  X(IntDiv, 2) /* of two integers: Python's true division */

enum class FloatOp : uint8_t {
#define X(name, arity) name,
  SAKER_FLOAT_OPS(X)
#undef X
};

inline constexpr size_t kFloatOpCount = 0
#define X(name, arity) +1
    SAKER_FLOAT_OPS(X)
#undef X
    ;

inline constexpr size_t arityOf(FloatOp op) {
  constexpr uint8_t kArity[] = {
#define X(name, arity) arity,
      SAKER_FLOAT_OPS(X)
#undef X
  };
  return kArity[static_cast<size_t>(op)];
}

struct Node {
  Kind kind;
  uint32_t id;  // order of creation
  uint64_t hash;
  union {
    int64_t value;
    double number;
  };
  Context* context;
  const Node* const* operands;
  uint32_t count;
  uint32_t weight;  // number of nodes, seen as a tree
  uint32_t depth;
  uint64_t symbols;  // a bit for each symbol in it, index modulo 64
  Range range;       // of an integer: what follows from the ranges its symbols were declared with

  std::span<const Node* const> args() const { return {operands, count}; }
  bool isSymbol() const { return kind == Kind::Symbol || kind == Kind::BoolSymbol || kind == Kind::FloatSymbol; }
  bool isInt() const { return kind <= Kind::ToInt; }
  bool isBool() const { return kind >= Kind::BoolConst && kind <= Kind::Not; }
  bool isFloat() const { return kind >= Kind::FloatConst; }
};

// Arithmetic left the 64 bits of a size.
struct Overflow : std::runtime_error {
  Overflow() : std::runtime_error("integer overflow in a symbolic size") {}
};

// A question that facts do not answer and no example value decides.
struct Undecided : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// An expression grew past what is worth reasoning about.
struct TooLarge : Undecided {
  TooLarge() : Undecided("a symbolic expression is too large") {}
};

// The order of the canonical form: structural, so independent of the order of creation.
int compare(const Node* a, const Node* b);

// "2*s0 + 1", "s0 % 8 == 0": what parseExpression() reads back.
std::string toString(const Node* node);
std::string floatText(double value);  // shortest text that reads back, always with a point, an exponent or a name

}  // namespace saker::sym
