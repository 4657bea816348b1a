// Values of expressions, and expressions with symbols replaced.
#include <cmath>

#include "support/check.h"
#include "symbolic/builder.h"
#include "symbolic/context.h"

namespace saker::sym {
namespace {

// Sums and products are computed in 128 bits: a canonical form may pass through larger numbers than what it was
// made from.
using Wide = __int128;

std::optional<Wide> wideValue(const Node* node, const Assignment& values);

std::optional<Wide> wideSumOrProduct(const Node* node, const Assignment& values) {
  Wide total = node->value;
  for (const Node* operand : node->args()) {
    std::optional<Wide> next = wideValue(operand, values);
    if (!next) return std::nullopt;
    bool overflow = node->kind == Kind::Add ? __builtin_add_overflow(total, *next, &total)
                                            : __builtin_mul_overflow(total, *next, &total);
    if (overflow) return std::nullopt;
  }
  return total;
}

std::optional<Wide> wideValue(const Node* node, const Assignment& values) {
  switch (node->kind) {
    case Kind::Const:
      return node->value;
    case Kind::Symbol: {
      size_t index = static_cast<size_t>(node->value);
      if (index >= values.ints.size() || !values.ints[index]) return std::nullopt;
      return *values.ints[index];
    }
    case Kind::Add:
    case Kind::Mul:
      return wideSumOrProduct(node, values);
    case Kind::FloorDiv:
    case Kind::Mod: {
      std::optional<Wide> a = wideValue(node->operands[0], values), b = wideValue(node->operands[1], values);
      if (!a || !b || *b == 0) return std::nullopt;
      if (*b == -1) return node->kind == Kind::Mod ? 0 : -*a;
      Wide q = *a / *b, r = *a % *b;
      bool down = r != 0 && (r < 0) != (*b < 0);
      return node->kind == Kind::Mod ? (down ? r + *b : r) : (down ? q - 1 : q);
    }
    case Kind::Min:
    case Kind::Max: {
      std::optional<Wide> best;
      for (const Node* operand : node->args()) {
        std::optional<Wide> next = wideValue(operand, values);
        if (!next) return std::nullopt;
        if (!best || (node->kind == Kind::Min ? *next < *best : *next > *best)) best = next;
      }
      return best;
    }
    case Kind::ToInt: {
      std::optional<double> a = evaluateFloat(node->operands[0], values);
      if (!a) return std::nullopt;
      std::optional<int64_t> whole = applyToInt(static_cast<FloatOp>(node->value), *a);
      return whole ? std::optional<Wide>(*whole) : std::nullopt;
    }
    default:
      SAKER_CHECK(false, "not an integer");
  }
  return std::nullopt;
}

template <typename T>
bool holds(Kind kind, T a, T b) {
  switch (kind) {
    case Kind::Eq:
      return a == b;
    case Kind::Ne:
      return a != b;
    case Kind::Le:
      return a <= b;
    default:
      return a < b;
  }
}

}  // namespace

Assignment exampleAssignment(const Context& context) {
  Assignment values;
  for (const Symbol& symbol : context.symbols()) {
    values.ints.push_back(symbol.example);
    values.floats.push_back(symbol.floatExample);
  }
  return values;
}

std::optional<int64_t> evaluateInt(const Node* node, const Assignment& values) {
  std::optional<Wide> value = wideValue(node, values);
  if (!value || *value < Range::kNegInf || *value > Range::kInf) return std::nullopt;
  return static_cast<int64_t>(*value);
}

std::optional<bool> evaluateBool(const Node* node, const Assignment& values) {
  switch (node->kind) {
    case Kind::BoolConst:
      return node->value != 0;
    case Kind::BoolSymbol: {
      size_t index = static_cast<size_t>(node->value);
      if (index >= values.ints.size() || !values.ints[index]) return std::nullopt;
      return *values.ints[index] != 0;
    }
    case Kind::Eq:
    case Kind::Ne:
    case Kind::Le:
    case Kind::Lt: {
      if (node->count == 1) {
        std::optional<Wide> d = wideValue(node->operands[0], values);
        return d ? std::optional(holds<Wide>(node->kind, *d, 0)) : std::nullopt;
      }
      std::optional<double> a = evaluateFloat(node->operands[0], values), b = evaluateFloat(node->operands[1], values);
      return a && b ? std::optional(holds(node->kind, *a, *b)) : std::nullopt;
    }
    case Kind::And:
    case Kind::Or: {
      // One operand can settle it, whatever the others are.
      bool unknown = false;
      for (const Node* operand : node->args()) {
        std::optional<bool> next = evaluateBool(operand, values);
        if (!next) {
          unknown = true;
        } else if (*next != (node->kind == Kind::And)) {
          return next;
        }
      }
      return unknown ? std::nullopt : std::optional(node->kind == Kind::And);
    }
    case Kind::Not: {
      std::optional<bool> inner = evaluateBool(node->operands[0], values);
      return inner ? std::optional(!*inner) : std::nullopt;
    }
    default:
      SAKER_CHECK(false, "not a boolean");
  }
  return std::nullopt;
}

std::optional<double> evaluateFloat(const Node* node, const Assignment& values) {
  if (node->kind == Kind::FloatConst) return node->number;
  if (node->kind == Kind::FloatSymbol) {
    size_t index = static_cast<size_t>(node->value);
    return index < values.floats.size() ? values.floats[index] : std::nullopt;
  }
  SAKER_CHECK(node->kind == Kind::Float, "not a float");
  FloatOp op = static_cast<FloatOp>(node->value);
  if (op == FloatOp::FromInt) {
    std::optional<int64_t> a = evaluateInt(node->operands[0], values);
    return a ? std::optional(static_cast<double>(*a)) : std::nullopt;
  }
  if (op == FloatOp::IntDiv) {
    std::optional<int64_t> a = evaluateInt(node->operands[0], values), b = evaluateInt(node->operands[1], values);
    return a && b ? divideInts(*a, *b) : std::nullopt;
  }
  std::optional<double> a = evaluateFloat(node->operands[0], values), b = 0.0;
  if (node->count > 1) b = evaluateFloat(node->operands[1], values);
  return a && b ? applyFloat(op, *a, *b) : std::nullopt;
}

const Node* Builder::rebuild(const Node* like, std::span<const Node* const> operands) {
  switch (like->kind) {
    case Kind::Add: {
      SmallVec<const Node*, 8> terms(operands);
      terms.push_back(constant(like->value));
      return sum(terms);
    }
    case Kind::Mul: {
      SmallVec<const Node*, 8> factors(operands);
      factors.push_back(constant(like->value));
      return product(factors);
    }
    case Kind::FloorDiv:
      return floorDiv(operands[0], operands[1]);
    case Kind::Mod:
      return mod(operands[0], operands[1]);
    case Kind::Min:
    case Kind::Max:
      return minMax(like->kind, operands);
    case Kind::ToInt:
      return toInt(static_cast<FloatOp>(like->value), operands[0]);
    case Kind::Eq:
    case Kind::Ne:
    case Kind::Le:
    case Kind::Lt:
      if (operands.size() == 1) return compareInts(like->kind, operands[0], constant(0));
      return floatCompare(like->kind, operands[0], operands[1]);
    case Kind::And:
    case Kind::Or:
      return logical(like->kind, operands);
    case Kind::Not:
      return logicalNot(operands[0]);
    case Kind::Float:
      return floatOp(static_cast<FloatOp>(like->value), operands);
    default:
      return like;
  }
}

const Node* substitute(const Node* node, const std::vector<const Node*>& bySymbolIndex) {
  if (node->kind == Kind::Symbol || node->kind == Kind::BoolSymbol || node->kind == Kind::FloatSymbol) {
    size_t index = static_cast<size_t>(node->value);
    return index < bySymbolIndex.size() && bySymbolIndex[index] ? bySymbolIndex[index] : node;
  }
  if (node->count == 0) return node;
  SmallVec<const Node*, 8> operands;
  bool changed = false;
  for (const Node* operand : node->args()) {
    operands.push_back(substitute(operand, bySymbolIndex));
    changed |= operands.back() != operand;
  }
  return changed ? Builder(*node->context).rebuild(node, operands) : node;
}

}  // namespace saker::sym
