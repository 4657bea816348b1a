// Arithmetic and comparisons.
#include "aten/sym_node.h"

#include <cmath>
#include <limits>

#include "symbolic/context.h"

namespace saker::aten {

using sym::FloatOp;
using sym::Kind;

const SymNode* ourNode(const c10::SymInt& value) {
  return value.is_heap_allocated() ? dynamic_cast<const SymNode*>(value.toSymNodeImplUnowned()) : nullptr;
}

c10::SymInt toSymInt(const SharedContext& context, sym::Int value) {
  if (value.isConst()) return value.constant();
  return c10::SymInt(c10::SymNode(c10::make_intrusive<SymNode>(context, value.node())));
}

c10::SymBool toSymBool(const SharedContext& context, sym::Bool value) {
  if (value.isConst()) return value.constant();
  return c10::SymBool(c10::SymNode(c10::make_intrusive<SymNode>(context, value.node())));
}

c10::SymFloat toSymFloat(const SharedContext& context, sym::Float value) {
  if (value.isConst()) return value.constant();
  return c10::SymFloat(c10::SymNode(c10::make_intrusive<SymNode>(context, value.node())));
}

// A condition that the facts decide is a constant.
c10::SymNode SymNode::make(const sym::Node* node) const {
  if (node->isBool()) {
    if (std::optional<bool> known = symbols().facts().prove(node)) node = symbols().boolConst(*known);
  }
  return c10::make_intrusive<SymNode>(context_, node);
}

const sym::Node* SymNode::operand(const c10::SymNode& other) const {
  if (const auto* ours = dynamic_cast<const SymNode*>(other.get())) {
    TORCH_CHECK(ours->context_ == context_, "symbols of different spaces meet: ", toString(node_), " and ",
                toString(ours->node_));
    return ours->node_;
  }
  if (std::optional<int64_t> number = other->constant_int()) return symbols().intConst(*number);
  if (std::optional<bool> truth = other->constant_bool()) return symbols().boolConst(*truth);
  TORCH_CHECK(false, "a symbol of Saker's meets one that is not: ", toString(node_), " and ", other->str());
}

// Where Python computes with truth values they are numbers. PyTorch hands them over as they are before 2.13.
const sym::Node* SymNode::number(const sym::Node* node) const {
  return node->isBool() ? symbols().intConst(symbols().decide(node, "a number")) : node;
}

std::pair<const sym::Node*, const sym::Node*> SymNode::numbers(const c10::SymNode& other) const {
  return {number(node_), number(operand(other))};
}

const sym::Node* SymNode::asFloat(const sym::Node* node) const {
  if (node->isFloat()) return node;
  if (node->isBool()) return symbols().floatConst(symbols().decide(node) ? 1.0 : 0.0);
  const sym::Node* operands[] = {node};
  return symbols().floatOp(FloatOp::FromInt, operands);
}

const sym::Node* SymNode::floatOp(FloatOp op, const sym::Node* a, const sym::Node* b) const {
  const sym::Node* operands[] = {asFloat(a), asFloat(b)};
  return symbols().floatOp(op, operands);
}

void SymNode::requireNonzero(const sym::Node* divisor) const {
  const sym::Node* isZero = divisor->isInt() ? symbols().eq(divisor, symbols().intConst(0))
                                             : symbols().floatCompare(Kind::Eq, divisor, symbols().floatConst(0));
  if (symbols().decide(isZero, "a divisor")) throw DivisionByZero();
}

c10::SymNode SymNode::add(const c10::SymNode& other) {
  auto [a, b] = numbers(other);
  return make(bothInts(a, b) ? symbols().add(a, b) : floatOp(FloatOp::Add, a, b));
}

c10::SymNode SymNode::sub(const c10::SymNode& other) {
  auto [a, b] = numbers(other);
  return make(bothInts(a, b) ? symbols().sub(a, b) : floatOp(FloatOp::Sub, a, b));
}

c10::SymNode SymNode::mul(const c10::SymNode& other) {
  auto [a, b] = numbers(other);
  return make(bothInts(a, b) ? symbols().mul(a, b) : floatOp(FloatOp::Mul, a, b));
}

c10::SymNode SymNode::truediv(const c10::SymNode& other) {
  auto [a, b] = numbers(other);
  requireNonzero(b);
  if (!bothInts(a, b)) return make(floatOp(FloatOp::Div, a, b));
  const sym::Node* operands[] = {a, b};
  return make(symbols().floatOp(FloatOp::IntDiv, operands));
}

c10::SymNode SymNode::floordiv(const c10::SymNode& other) {
  auto [a, b] = numbers(other);
  requireNonzero(b);
  return make(bothInts(a, b) ? symbols().floorDiv(a, b) : floatOp(FloatOp::FloorDiv, a, b));
}

c10::SymNode SymNode::mod(const c10::SymNode& other) {
  auto [a, b] = numbers(other);
  requireNonzero(b);
  return make(bothInts(a, b) ? symbols().mod(a, b) : floatOp(FloatOp::Mod, a, b));
}

c10::SymNode SymNode::pow(const c10::SymNode& other) {
  const sym::Node* b = operand(other);
  if (!bothInts(node_, b)) return float_pow(other);
  return symbols().decide(symbols().le(symbols().intConst(0), b), "an exponent") ? pow_by_natural(other)
                                                                                 : float_pow(other);
}

c10::SymNode SymNode::float_pow(const c10::SymNode& other) {
  return make(floatOp(FloatOp::Pow, node_, operand(other)));
}

const sym::Node* SymNode::power(const sym::Node* base, int64_t exponent) const {
  const sym::Node* result = symbols().intConst(1);
  while (exponent > 0) {
    if (exponent & 1) result = symbols().mul(result, base);
    exponent >>= 1;
    if (exponent > 0) base = symbols().mul(base, base);
  }
  return result;
}

// The exponent must be a number: products of an unknown number of factors are no expressions.
c10::SymNode SymNode::pow_by_natural(const c10::SymNode& other) {
  int64_t exponent = symbols().guardInt(operand(other), "an exponent");
  TORCH_CHECK(exponent >= 0, "a negative exponent: ", exponent);
  return make(power(node_, exponent));
}

c10::SymNode SymNode::sym_min(const c10::SymNode& other) {
  const sym::Node* b = operand(other);
  return make(bothInts(node_, b) ? symbols().minMax(Kind::Min, node_, b) : floatOp(FloatOp::Min, node_, b));
}

c10::SymNode SymNode::sym_max(const c10::SymNode& other) {
  const sym::Node* b = operand(other);
  return make(bothInts(node_, b) ? symbols().minMax(Kind::Max, node_, b) : floatOp(FloatOp::Max, node_, b));
}

const sym::Node* SymNode::equal(const sym::Node* other) const {
  if (bothInts(node_, other)) return symbols().eq(node_, other);
  if (node_->isBool() && other->isBool()) {
    const sym::Node* both = symbols().logical(Kind::And, node_, other);
    const sym::Node* neither = symbols().logical(Kind::And, symbols().logicalNot(node_), symbols().logicalNot(other));
    return symbols().logical(Kind::Or, both, neither);
  }
  return symbols().floatCompare(Kind::Eq, asFloat(node_), asFloat(other));
}

const sym::Node* SymNode::atMost(const sym::Node* a, const sym::Node* b) const {
  if (a->isInt() && b->isInt()) return symbols().le(a, b);
  return symbols().floatCompare(Kind::Le, asFloat(a), asFloat(b));
}

const sym::Node* SymNode::less(const sym::Node* a, const sym::Node* b) const {
  if (a->isInt() && b->isInt()) return symbols().lt(a, b);
  return symbols().floatCompare(Kind::Lt, asFloat(a), asFloat(b));
}

c10::SymNode SymNode::eq(const c10::SymNode& other) { return make(equal(operand(other))); }
c10::SymNode SymNode::ne(const c10::SymNode& other) { return make(symbols().logicalNot(equal(operand(other)))); }
c10::SymNode SymNode::le(const c10::SymNode& other) { return make(atMost(node_, operand(other))); }
c10::SymNode SymNode::ge(const c10::SymNode& other) { return make(atMost(operand(other), node_)); }
c10::SymNode SymNode::lt(const c10::SymNode& other) { return make(less(node_, operand(other))); }
c10::SymNode SymNode::gt(const c10::SymNode& other) { return make(less(operand(other), node_)); }

c10::SymNode SymNode::sym_or(const c10::SymNode& other) {
  return make(symbols().logical(Kind::Or, node_, operand(other)));
}
c10::SymNode SymNode::sym_and(const c10::SymNode& other) {
  return make(symbols().logical(Kind::And, node_, operand(other)));
}
c10::SymNode SymNode::sym_not() { return make(symbols().logicalNot(node_)); }

c10::SymNode SymNode::sym_ite(const c10::SymNode& thenValue, const c10::SymNode& elseValue) {
  return make(operand(symbols().decide(node_, "a choice") ? thenValue : elseValue));
}

c10::SymNode SymNode::neg() {
  if (node_->isInt()) return make(symbols().neg(node_));
  const sym::Node* operands[] = {node_};
  return make(symbols().floatOp(FloatOp::Neg, operands));
}

c10::SymNode SymNode::abs() {
  if (node_->isInt()) return make(symbols().minMax(Kind::Max, node_, symbols().neg(node_)));
  const sym::Node* operands[] = {node_};
  return make(symbols().floatOp(FloatOp::Abs, operands));
}

c10::SymNode SymNode::rounded(FloatOp op) { return make(node_->isInt() ? node_ : symbols().toInt(op, node_)); }

c10::SymNode SymNode::is_integer() {
  if (node_->isInt()) return wrap_bool(true);
  const sym::Node* operands[] = {node_};
  return make(symbols().floatCompare(Kind::Eq, node_, symbols().floatOp(FloatOp::Floor, operands)));
}

// Where the function is not defined, or too large, Python raises; the domain becomes a guard where the range does not
// show it.
c10::SymNode SymNode::function(FloatOp op) {
  constexpr int kMostExponent = 709;
  const sym::Node* operands[] = {asFloat(node_)};
  // Of an integer the integer is asked: its range is known.
  bool fromInt = operands[0]->kind == Kind::Float && static_cast<FloatOp>(operands[0]->value) == FloatOp::FromInt;
  const sym::Node* value = fromInt ? operands[0]->operands[0] : operands[0];
  auto number = [&](int n) { return fromInt ? symbols().intConst(n) : symbols().floatConst(n); };
  auto require = [&](const sym::Node* condition) {
    if (!symbols().decide(condition, "a domain")) throw std::domain_error("math domain error");
  };
  if (op == FloatOp::Sqrt) require(atMost(number(0), value));
  if (op == FloatOp::Log || op == FloatOp::Log2) require(less(number(0), value));
  if (op == FloatOp::Asin || op == FloatOp::Acos) {
    require(atMost(number(-1), value));
    require(atMost(value, number(1)));
  }
  if (op == FloatOp::Exp) require(atMost(value, number(kMostExponent)));
  if (op == FloatOp::Sinh || op == FloatOp::Cosh) {
    require(atMost(number(-kMostExponent), value));
    require(atMost(value, number(kMostExponent)));
  }
  if ((op == FloatOp::Sin || op == FloatOp::Cos || op == FloatOp::Tan) && !fromInt) {
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    require(less(symbols().floatConst(-kInfinite), value));
    require(less(value, symbols().floatConst(kInfinite)));
  }
  return make(symbols().floatOp(op, operands));
}

c10::SymNode SymNode::sum(c10::ArrayRef<c10::SymNode> terms) {
  std::vector<const sym::Node*> nodes;
  for (const c10::SymNode& term : terms) nodes.push_back(operand(term));
  return make(symbols().sum(nodes));
}

c10::SymNode SymNode::sym_float() { return make(asFloat(node_)); }
c10::SymNode SymNode::wrap_int(int64_t value) { return make(symbols().intConst(value)); }
c10::SymNode SymNode::wrap_float(double value) { return make(symbols().floatConst(value)); }
c10::SymNode SymNode::wrap_bool(bool value) { return make(symbols().boolConst(value)); }

}  // namespace saker::aten
