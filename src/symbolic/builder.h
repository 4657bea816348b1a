// Canonical construction. A Builder knows what ranges it may rely on: the declared ones, so that what it makes depends
// on nothing but its operands, or those of Facts, for simplification under what is known at the moment.
#pragma once

#include <span>

#include "symbolic/context.h"
#include "symbolic/poly.h"

namespace saker::sym {

class Builder {
 public:
  explicit Builder(Context& context, const Facts* facts = nullptr)
      : context_(context), facts_(facts), mark_(context.scratch_.mark()) {}
  ~Builder() { context_.scratch_.reset(mark_); }
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // Integers.
  const Node* constant(int64_t value) { return context_.intConst(value); }
  const Node* sum(std::span<const Node* const> terms);
  const Node* sub(const Node* a, const Node* b);
  const Node* product(std::span<const Node* const> factors);
  const Node* floorDiv(const Node* a, const Node* b);
  const Node* mod(const Node* a, const Node* b);
  const Node* minMax(Kind kind, std::span<const Node* const> operands);

  // Conditions on integers: d == 0, d != 0, d <= 0.
  const Node* compareDifference(Kind kind, const Node* a, const Node* b);

  // Booleans.
  const Node* logical(Kind kind, std::span<const Node* const> operands);
  const Node* logicalNot(const Node* a);

  // Floats.
  const Node* floatOp(FloatOp op, std::span<const Node* const> operands);
  const Node* floatCompare(Kind kind, const Node* a, const Node* b);
  const Node* toInt(FloatOp rounding, const Node* a);

  // The same operator with other operands.
  const Node* rebuild(const Node* like, std::span<const Node* const> operands);

  const Node* node(const Poly& poly);
  Range rangeOf(const Node* node) const { return facts_ ? facts_->rangeOf(node) : node->range; }
  Range rangeOf(const Poly& poly) const;

 private:
  const Node* boolean(bool value) { return value ? context_.true_ : context_.false_; }
  const Node* term(const Term& term);
  const Node* intern(Kind kind, int64_t value, std::span<const Node* const> operands);
  const Node* compareZero(Kind kind, Poly& difference);
  bool nonZero(const Node* node) const { return !rangeOf(node).contains(0); }
  const Node* divideByConst(const Node* numerator, int64_t divisor);
  const Node* modByConst(const Node* numerator, int64_t divisor);

  Context& context_;
  const Facts* facts_;
  Arena::Mark mark_;
};

// Folding and evaluation of float operators; Python's meaning. Nothing where Python raises.
std::optional<double> applyFloat(FloatOp op, double a, double b);
std::optional<int64_t> applyToInt(FloatOp rounding, double a);
std::optional<double> divideInts(int64_t a, int64_t b);

}  // namespace saker::sym
