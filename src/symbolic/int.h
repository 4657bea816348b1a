// The values that inference computes with. An Int is a plain number or an expression; with plain numbers it costs
// what an int64_t costs. Code written with Int, Bool and Float reads like code for numbers and works for symbols:
//
//   if (a.sizes()[0] != b.sizes()[0]) refuse(...);     // asks the context: facts, then the example value + a guard
//   Int rows = numel / a.sizes()[0];                   // floor division
#pragma once

#include <cstdint>
#include <string>

#include "symbolic/expr.h"

namespace saker::sym {

class Bool {
 public:
  Bool(bool value = false) : value_(value) {}
  explicit Bool(const Node* node);
  bool isConst() const { return !node_; }
  bool constant() const { return value_; }
  const Node* node() const { return node_; }
  // The node, made in `context` when this is a plain number.
  const Node* in(Context& context) const;
  // Decides: from facts where they answer, else by the example value, which leaves a guard. Throws Undecided.
  explicit operator bool() const { return node_ ? decide() : value_; }
  // True only if it follows from facts; asks no example value and leaves no guard.
  bool provablyTrue() const { return node_ ? prove() == 1 : value_; }
  bool provablyFalse() const { return node_ ? prove() == 0 : !value_; }

 private:
  bool decide() const;
  int prove() const;

  bool value_;
  const Node* node_ = nullptr;
};

class Int {
 public:
  Int() = default;
  Int(int64_t value) : value_(value) {}
  Int(int value) : value_(value) {}
  Int(size_t value) : value_(static_cast<int64_t>(value)) {}
  explicit Int(const Node* node);
  bool isConst() const { return !node_; }
  int64_t constant() const { return value_; }
  const Node* node() const { return node_; }
  const Node* in(Context& context) const;
  bool isConst(int64_t value) const { return !node_ && value_ == value; }
  // The number, where necessary by deciding that the expression equals its example value (leaves a guard).
  int64_t guard() const { return node_ ? guardSlow() : value_; }
  // Same expression (not: equal values).
  bool same(const Int& other) const { return node_ == other.node_ && value_ == other.value_; }
  uint64_t hashWord() const { return node_ ? node_->hash : static_cast<uint64_t>(value_) * 0x9e3779b97f4a7c15ull; }

 private:
  int64_t guardSlow() const;

  int64_t value_ = 0;  // 0 where node_ is set
  const Node* node_ = nullptr;
};

class Float {
 public:
  Float(double value = 0) : value_(value) {}
  explicit Float(const Node* node);
  bool isConst() const { return !node_; }
  double constant() const { return value_; }
  const Node* node() const { return node_; }
  const Node* in(Context& context) const;

 private:
  double value_;
  const Node* node_ = nullptr;
};

namespace detail {
Int addSlow(Int a, Int b);
Int subSlow(Int a, Int b);
Int mulSlow(Int a, Int b);
Int floorDivSlow(Int a, Int b);
Int modSlow(Int a, Int b);
Int minSlow(Int a, Int b);
Int maxSlow(Int a, Int b);
Bool eqSlow(Int a, Int b);
Bool leSlow(Int a, Int b);
Bool andSlow(Bool a, Bool b);
Bool orSlow(Bool a, Bool b);
Bool notSlow(Bool a);
}  // namespace detail

inline Int operator+(Int a, Int b) {
  int64_t r;
  if (a.isConst() && b.isConst() && !__builtin_add_overflow(a.constant(), b.constant(), &r)) return r;
  return detail::addSlow(a, b);
}
inline Int operator-(Int a, Int b) {
  int64_t r;
  if (a.isConst() && b.isConst() && !__builtin_sub_overflow(a.constant(), b.constant(), &r)) return r;
  return detail::subSlow(a, b);
}
inline Int operator*(Int a, Int b) {
  int64_t r;
  if (a.isConst() && b.isConst() && !__builtin_mul_overflow(a.constant(), b.constant(), &r)) return r;
  return detail::mulSlow(a, b);
}
// Floor division and modulo, as in Python; a zero divisor throws Undecided.
inline Int operator/(Int a, Int b) {
  if (a.isConst() && b.isConst() && a.constant() >= 0 && b.constant() > 0) return a.constant() / b.constant();
  return detail::floorDivSlow(a, b);
}
inline Int operator%(Int a, Int b) {
  if (a.isConst() && b.isConst() && a.constant() >= 0 && b.constant() > 0) return a.constant() % b.constant();
  return detail::modSlow(a, b);
}
inline Int operator-(Int a) { return Int(0) - a; }
inline Int& operator+=(Int& a, Int b) { return a = a + b; }
inline Int& operator-=(Int& a, Int b) { return a = a - b; }
inline Int& operator*=(Int& a, Int b) { return a = a * b; }
inline Int min(Int a, Int b) {
  if (a.isConst() && b.isConst()) return a.constant() < b.constant() ? a : b;
  return detail::minSlow(a, b);
}
inline Int max(Int a, Int b) {
  if (a.isConst() && b.isConst()) return a.constant() > b.constant() ? a : b;
  return detail::maxSlow(a, b);
}
inline Int ceilDiv(Int a, Int b) { return (a + b - Int(1)) / b; }

inline Bool operator!(Bool a) { return a.isConst() ? Bool(!a.constant()) : detail::notSlow(a); }
// Not && and ||: these build expressions and never short-circuit.
inline Bool operator&(Bool a, Bool b) {
  return a.isConst() && b.isConst() ? Bool(a.constant() && b.constant()) : detail::andSlow(a, b);
}
inline Bool operator|(Bool a, Bool b) {
  return a.isConst() && b.isConst() ? Bool(a.constant() || b.constant()) : detail::orSlow(a, b);
}
inline Bool operator==(Int a, Int b) {
  return a.isConst() && b.isConst() ? Bool(a.constant() == b.constant()) : detail::eqSlow(a, b);
}
inline Bool operator!=(Int a, Int b) { return !(a == b); }
inline Bool operator<=(Int a, Int b) {
  return a.isConst() && b.isConst() ? Bool(a.constant() <= b.constant()) : detail::leSlow(a, b);
}
inline Bool operator>=(Int a, Int b) { return b <= a; }
inline Bool operator<(Int a, Int b) { return !(b <= a); }
inline Bool operator>(Int a, Int b) { return !(a <= b); }

std::string toString(Int value);
std::string toString(Bool value);
std::string toString(Float value);

}  // namespace saker::sym
