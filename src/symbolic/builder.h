// Canonical construction. A Builder knows what ranges it may rely on: the declared ones, so that what it makes depends
// on nothing but its operands, or those of `known`, for simplification under what is known at the moment.
#pragma once

#include <span>

#include "symbolic/context.h"
#include "symbolic/knowledge.h"
#include "symbolic/poly.h"

namespace saker::sym {

class Builder {
 public:
  explicit Builder(Context& context, const Knowledge* known = nullptr)
      : context_(context), known_(known), mark_(context.scratch_.mark()) {}
  ~Builder() { context_.scratch_.reset(mark_); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // Remainders are looked up in `known` too. Not for use inside it.
  void askRemainders() { askRemainders_ = true; }

  // Integers.
  const Node* constant(int64_t value) { return context_.intConst(value); }
  const Node* sum(std::span<const Node* const> terms);
  const Node* sub(const Node* a, const Node* b);
  const Node* product(std::span<const Node* const> factors);
  const Node* floorDiv(const Node* a, const Node* b);
  const Node* mod(const Node* a, const Node* b);
  const Node* minMax(Kind kind, std::span<const Node* const> operands);

  // Conditions on integers: a == b, a != b, a <= b.
  const Node* compareInts(Kind kind, const Node* a, const Node* b);
  // The same for d == 0, d != 0, d <= 0.
  const Node* compareZero(Kind kind, Poly d);

  // Booleans.
  const Node* logical(Kind kind, std::span<const Node* const> operands);
  const Node* logicalNot(const Node* a);

  // Floats.
  const Node* floatOp(FloatOp op, std::span<const Node* const> operands);
  const Node* floatCompare(Kind kind, const Node* a, const Node* b);
  const Node* toInt(FloatOp rounding, const Node* a);

  // The same operator with other operands.
  const Node* rebuild(const Node* like, std::span<const Node* const> operands);

  // The expression for a polynomial; `sum` also looks for x - k*(x//k) and the like.
  const Node* node(const Poly& poly);
  const Node* sum(Poly& poly);
  Poly times(const Poly& a, const Poly& b) { return multiply(a, b, context_.scratch_); }
  Range rangeOf(const Node* node) const { return known_ ? known_->rangeOf(node) : node->range; }
  Range rangeOf(const Poly& poly) const;

 private:
  const Node* boolean(bool value) { return value ? context_.true_ : context_.false_; }
  const Node* term(const Term& term);
  const Node* intern(Kind kind, int64_t value, std::span<const Node* const> operands);
  bool nonZero(const Node* node) const { return !rangeOf(node).contains(0); }
  bool nonZero(const Term& monomial) const;

  // build_integer.cpp
  const Node* factored(Term monomial, std::span<const Node* const> sums);
  // build_division.cpp
  const Node* divideByConst(Poly numerator, int64_t divisor);
  const Node* modByConst(Poly numerator, int64_t divisor);
  const Node* divideByPoly(Poly numerator, Poly divisor, Kind kind);
  Term cancelCommon(Poly& a, Poly& b);
  bool longDivide(const Poly& numerator, const Poly& divisor, Poly& quotient, Poly& rest);
  const Node* nestedDivision(const Poly& numerator, const Node* divisor);
  void unwrapMods(Poly& numerator, int64_t divisor);
  // build_recombine.cpp
  bool recombine(Poly& poly);  // whether anything changed
  bool recombineAt(Poly& poly, const Term& term, const Node* atom);
  // build_condition.cpp
  bool dropCommonFactor(Kind kind, Poly& d);
  const Node* compareDivision(const Poly& d);
  bool readBound(const Node* node, Poly& d);
  bool mergeComparisons(Kind kind, SmallVec<const Node*, 8>& kept);

  Context& context_;
  const Knowledge* known_;
  bool askRemainders_ = false;
  Arena::Mark mark_;
};

// Folding and evaluation of float operators; Python's meaning. Nothing where Python raises.
std::optional<double> applyFloat(FloatOp op, double a, double b);
std::optional<int64_t> applyToInt(FloatOp rounding, double a);
std::optional<double> divideInts(int64_t a, int64_t b);

}  // namespace saker::sym
