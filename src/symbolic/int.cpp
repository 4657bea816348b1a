#include "symbolic/int.h"

#include "support/check.h"
#include "symbolic/context.h"
#include "symbolic/poly.h"

namespace saker::sym {
namespace {

template <typename A, typename B>
Context& contextOf(A a, B b) {
  return *(a.node() ? a.node() : b.node())->context;
}

bool bothConst(Int a, Int b) { return a.isConst() && b.isConst(); }

}  // namespace

Int::Int(const Node* node) : node_(node) {
  SAKER_CHECK(node->isInt(), "not an integer expression");
  if (node->kind == Kind::Const) {
    value_ = node->value;
    node_ = nullptr;
  }
}

Bool::Bool(const Node* node) : value_(false), node_(node) {
  SAKER_CHECK(node->isBool(), "not a boolean expression");
  if (node->kind == Kind::BoolConst) {
    value_ = node->value != 0;
    node_ = nullptr;
  }
}

Float::Float(const Node* node) : value_(0), node_(node) {
  SAKER_CHECK(node->isFloat(), "not a float expression");
  if (node->kind == Kind::FloatConst) {
    value_ = node->number;
    node_ = nullptr;
  }
}

const Node* Int::in(Context& context) const { return node_ ? node_ : context.intConst(value_); }
const Node* Bool::in(Context& context) const { return node_ ? node_ : context.boolConst(value_); }
const Node* Float::in(Context& context) const { return node_ ? node_ : context.floatConst(value_); }

int64_t Int::guardSlow() const { return node_->context->guardInt(node_); }
bool Bool::decide() const { return node_->context->decide(node_); }
int Bool::prove() const {
  std::optional<bool> known = node_->context->facts().prove(node_);
  return known ? *known : -1;
}

namespace detail {

// With two plain numbers these are reached where the result does not fit.
Int addSlow(Int a, Int b) {
  if (bothConst(a, b)) throw Overflow();
  Context& context = contextOf(a, b);
  return Int(context.add(a.in(context), b.in(context)));
}

Int subSlow(Int a, Int b) {
  if (bothConst(a, b)) throw Overflow();
  Context& context = contextOf(a, b);
  return Int(context.sub(a.in(context), b.in(context)));
}

Int mulSlow(Int a, Int b) {
  if (bothConst(a, b)) throw Overflow();
  Context& context = contextOf(a, b);
  return Int(context.mul(a.in(context), b.in(context)));
}

Int floorDivSlow(Int a, Int b) {
  if (b.isConst(0)) throw Undecided("division of a size by zero");
  if (bothConst(a, b)) {
    if (b.constant() == -1) return Int(0) - a;
    return floorDiv(a.constant(), b.constant());
  }
  Context& context = contextOf(a, b);
  return Int(context.floorDiv(a.in(context), b.in(context)));
}

Int modSlow(Int a, Int b) {
  if (b.isConst(0)) throw Undecided("division of a size by zero");
  if (bothConst(a, b)) return floorMod(a.constant(), b.constant());
  Context& context = contextOf(a, b);
  return Int(context.mod(a.in(context), b.in(context)));
}

Int minSlow(Int a, Int b) {
  Context& context = contextOf(a, b);
  return Int(context.minMax(Kind::Min, a.in(context), b.in(context)));
}

Int maxSlow(Int a, Int b) {
  Context& context = contextOf(a, b);
  return Int(context.minMax(Kind::Max, a.in(context), b.in(context)));
}

Bool eqSlow(Int a, Int b) {
  if (a.node() == b.node()) return true;
  Context& context = contextOf(a, b);
  return Bool(context.eq(a.in(context), b.in(context)));
}

Bool leSlow(Int a, Int b) {
  if (a.node() == b.node()) return true;
  Context& context = contextOf(a, b);
  return Bool(context.le(a.in(context), b.in(context)));
}

Bool andSlow(Bool a, Bool b) {
  Context& context = contextOf(a, b);
  return Bool(context.logical(Kind::And, a.in(context), b.in(context)));
}

Bool orSlow(Bool a, Bool b) {
  Context& context = contextOf(a, b);
  return Bool(context.logical(Kind::Or, a.in(context), b.in(context)));
}

Bool notSlow(Bool a) { return Bool(a.node()->context->logicalNot(a.node())); }

}  // namespace detail

std::string toString(Int value) { return value.node() ? toString(value.node()) : std::to_string(value.constant()); }
std::string toString(Bool value) { return value.node() ? toString(value.node()) : value.constant() ? "True" : "False"; }
std::string toString(Float value) { return value.node() ? toString(value.node()) : floatText(value.constant()); }

}  // namespace saker::sym
