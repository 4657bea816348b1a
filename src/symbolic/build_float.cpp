// Floats: folded where all operands are numbers, else kept as they are.
#include <algorithm>
#include <bit>
#include <cmath>

#include "symbolic/builder.h"

namespace saker::sym {
namespace {

// Quotient and remainder together: the quotient is found from the remainder before that gets the divisor's sign.
struct FloatDivision {
  double quotient;
  double remainder;
};

FloatDivision divideFloats(double a, double b) {
  double remainder = std::fmod(a, b);
  double quotient = (a - remainder) / b;
  if (remainder == 0) {
    remainder = std::copysign(0.0, b);
  } else if ((remainder < 0) != (b < 0)) {
    remainder += b;
    quotient -= 1;
  }
  if (quotient == 0) return {std::copysign(0.0, a / b), remainder};
  double whole = std::floor(quotient);
  return {quotient - whole > 0.5 ? whole + 1 : whole, remainder};
}

uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

}  // namespace

std::optional<double> applyFloat(FloatOp op, double a, double b) {
  switch (op) {
    case FloatOp::FromInt:
    case FloatOp::IntDiv:
      return std::nullopt;  // their operands are integers
    case FloatOp::Add:
      return a + b;
    case FloatOp::Sub:
      return a - b;
    case FloatOp::Mul:
      return a * b;
    case FloatOp::Div:
      return b == 0 ? std::nullopt : std::optional(a / b);
    case FloatOp::FloorDiv:
      return b == 0 ? std::nullopt : std::optional(divideFloats(a, b).quotient);
    case FloatOp::Mod:
      return b == 0 ? std::nullopt : std::optional(divideFloats(a, b).remainder);
    case FloatOp::Pow: {
      if (a == 0 && b < 0) return std::nullopt;
      if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) return std::nullopt;  // complex
      double r = std::pow(a, b);
      return std::isinf(r) && std::isfinite(a) && std::isfinite(b) ? std::nullopt : std::optional(r);
    }
    case FloatOp::Neg:
      return -a;
    case FloatOp::Abs:
      return std::fabs(a);
    case FloatOp::Min:
      return b < a ? b : a;
    case FloatOp::Max:
      return b > a ? b : a;
    case FloatOp::Sqrt:
      return a < 0 ? std::nullopt : std::optional(std::sqrt(a));
    case FloatOp::Exp: {
      double r = std::exp(a);
      return std::isinf(r) && std::isfinite(a) ? std::nullopt : std::optional(r);
    }
    case FloatOp::Log:
      return a <= 0 ? std::nullopt : std::optional(std::log(a));
    case FloatOp::Log2:
      return a <= 0 ? std::nullopt : std::optional(std::log2(a));
    case FloatOp::Sin:
      return std::isinf(a) ? std::nullopt : std::optional(std::sin(a));
    case FloatOp::Cos:
      return std::isinf(a) ? std::nullopt : std::optional(std::cos(a));
    case FloatOp::Tan:
      return std::isinf(a) ? std::nullopt : std::optional(std::tan(a));
    case FloatOp::Asin:
      return std::fabs(a) > 1 ? std::nullopt : std::optional(std::asin(a));
    case FloatOp::Acos:
      return std::fabs(a) > 1 ? std::nullopt : std::optional(std::acos(a));
    case FloatOp::Atan:
      return std::atan(a);
    case FloatOp::Sinh:
    case FloatOp::Cosh: {
      double r = op == FloatOp::Sinh ? std::sinh(a) : std::cosh(a);
      return std::isinf(r) && std::isfinite(a) ? std::nullopt : std::optional(r);
    }
    case FloatOp::Tanh:
      return std::tanh(a);
    case FloatOp::Floor:
      return std::floor(a);
    case FloatOp::Ceil:
      return std::ceil(a);
    case FloatOp::Trunc:
      return std::trunc(a);
    case FloatOp::Round:
      return std::nearbyint(a);  // half to even
  }
  return std::nullopt;
}

std::optional<int64_t> applyToInt(FloatOp rounding, double a) {
  std::optional<double> whole = applyFloat(rounding, a, 0);
  if (!whole || !(*whole >= -0x1p63 && *whole < 0x1p63)) return std::nullopt;
  return static_cast<int64_t>(*whole);
}

// The exact quotient, rounded once.
std::optional<double> divideInts(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  uint64_t x = magnitude(a), y = magnitude(b);
  constexpr uint64_t kExact = uint64_t{1} << 53;
  if (x <= kExact && y <= kExact) return static_cast<double>(a) / static_cast<double>(b);
  // At least 56 bits of the quotient; what is cut off only matters by not being zero.
  int shift = std::max(0, 56 + static_cast<int>(std::bit_width(y)) - static_cast<int>(std::bit_width(x)));
  unsigned __int128 scaled = static_cast<unsigned __int128>(x) << shift;
  uint64_t quotient = static_cast<uint64_t>(scaled / y);
  if (scaled % y != 0) quotient |= 1;
  double rounded = std::ldexp(static_cast<double>(quotient), -shift);
  return (a < 0) != (b < 0) ? -rounded : rounded;
}

const Node* Builder::floatOp(FloatOp op, std::span<const Node* const> operands) {
  std::optional<double> folded;
  if (op == FloatOp::FromInt || op == FloatOp::IntDiv) {
    if (op == FloatOp::FromInt && operands[0]->kind == Kind::Const) {
      folded = static_cast<double>(operands[0]->value);
    } else if (op == FloatOp::IntDiv && operands[1]->kind == Kind::Const && operands[1]->value == 0) {
      throw Undecided("division of a symbolic size by zero");
    } else if (op == FloatOp::IntDiv && operands[0]->kind == Kind::Const && operands[1]->kind == Kind::Const) {
      folded = divideInts(operands[0]->value, operands[1]->value);
    }
  } else if (operands[0]->kind == Kind::FloatConst && operands.back()->kind == Kind::FloatConst) {
    folded = applyFloat(op, operands[0]->number, operands.back()->number);
  }
  if (folded) return context_.floatConst(*folded);
  return intern(Kind::Float, static_cast<int64_t>(op), operands);
}

const Node* Builder::floatCompare(Kind kind, const Node* a, const Node* b) {
  if (a->kind == Kind::FloatConst && b->kind == Kind::FloatConst) {
    double x = a->number, y = b->number;
    return boolean(kind == Kind::Eq ? x == y : kind == Kind::Ne ? x != y : kind == Kind::Le ? x <= y : x < y);
  }
  const Node* operands[] = {a, b};
  // == and != have no order; a number comes last.
  bool swap = a->kind == Kind::FloatConst || (b->kind != Kind::FloatConst && compare(b, a) < 0);
  if ((kind == Kind::Eq || kind == Kind::Ne) && swap) std::swap(operands[0], operands[1]);
  return intern(kind, 0, operands);
}

const Node* Builder::toInt(FloatOp rounding, const Node* a) {
  if (a->kind == Kind::FloatConst) {
    std::optional<int64_t> value = applyToInt(rounding, a->number);
    if (!value) throw Overflow();
    return constant(*value);
  }
  if (a->kind == Kind::Float && static_cast<FloatOp>(a->value) == FloatOp::FromInt) {
    // Exact as long as the integer is: 53 bits.
    Range range = rangeOf(a->operands[0]);
    if (range.low >= -(int64_t{1} << 53) && range.high <= int64_t{1} << 53) return a->operands[0];
  }
  const Node* operands[] = {a};
  return intern(Kind::ToInt, static_cast<int64_t>(rounding), operands);
}

}  // namespace saker::sym
