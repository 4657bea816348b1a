// Floats: folded where all operands are numbers, else kept as they are.
#include <cmath>

#include "symbolic/builder.h"

namespace saker::sym {
namespace {

double pythonMod(double a, double b) {
  double r = std::fmod(a, b);
  if (r != 0 ? (r < 0) != (b < 0) : false) return r + b;
  return r == 0 ? std::copysign(0.0, b) : r;
}

double pythonFloorDiv(double a, double b) {
  double quotient = (a - pythonMod(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
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
      return b == 0 ? std::nullopt : std::optional(pythonFloorDiv(a, b));
    case FloatOp::Mod:
      return b == 0 ? std::nullopt : std::optional(pythonMod(a, b));
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

// Python rounds the exact quotient once. Beyond 53 bits the operands round too, which long double avoids.
std::optional<double> divideInts(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
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
  if ((kind == Kind::Eq || kind == Kind::Ne) && compare(b, a) < 0) std::swap(operands[0], operands[1]);
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
