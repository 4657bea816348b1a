// Sums, products, minima and maxima.
#include <algorithm>

#include "symbolic/bounds.h"
#include "symbolic/builder.h"

namespace saker::sym {
namespace {

// A product with more terms than this stays a product of sums.
constexpr size_t kMaxExpansion = 64;

size_t termCount(const Poly& poly) { return poly.terms.size() + (poly.constant != 0); }

bool isFactored(const Node* node) {
  if (node->kind != Kind::Mul) return false;
  for (const Node* factor : node->args()) {
    if (factor->kind == Kind::Add) return true;
  }
  return false;
}

}  // namespace

const Node* Builder::intern(Kind kind, int64_t value, std::span<const Node* const> operands) {
  return context_.intern(kind, static_cast<uint64_t>(value), operands);
}

Range Builder::rangeOf(const Poly& poly) const {
  return polyBounds(poly, [this](const Node* atom) { return rangeOf(atom); });
}

const Node* Builder::term(const Term& term) {
  if (term.count == 0) return constant(term.coefficient);
  if (term.count == 1 && term.coefficient == 1) return term.single;
  return intern(Kind::Mul, term.coefficient, term.atoms());
}

const Node* Builder::node(const Poly& poly) {
  if (poly.terms.empty()) return constant(poly.constant);
  if (poly.terms.size() == 1 && poly.constant == 0) return term(poly.terms[0]);
  SmallVec<const Node*, 8> operands;
  for (const Term& t : poly.terms) operands.push_back(term(t));
  return intern(Kind::Add, poly.constant, operands);
}

const Node* Builder::sum(std::span<const Node* const> terms) {
  Poly total, next;
  for (const Node* t : terms) {
    readPoly(t, next);
    addScaled(total, next, 1);
  }
  return node(total);
}

const Node* Builder::sub(const Node* a, const Node* b) {
  if (a == b) return constant(0);
  Poly left, right;
  readPoly(a, left);
  readPoly(b, right);
  addScaled(left, right, -1);
  return node(left);
}

// Sums are multiplied out while that stays small; the ones left over are factors, without their common divisor.
const Node* Builder::product(std::span<const Node* const> factors) {
  Term monomial{1, 0, nullptr, nullptr};
  SmallVec<const Node*, 4> sums;
  auto take = [&](auto&& self, const Node* factor) -> void {
    if (factor->kind == Kind::Const) {
      monomial.coefficient = mulChecked(monomial.coefficient, factor->value);
    } else if (factor->kind == Kind::Add) {
      sums.push_back(factor);
    } else if (isFactored(factor)) {
      monomial.coefficient = mulChecked(monomial.coefficient, factor->value);
      for (const Node* inner : factor->args()) self(self, inner);
    } else if (monomial.count == 0) {
      Term t = termOf(factor);
      t.coefficient = mulChecked(t.coefficient, monomial.coefficient);
      monomial = t;
    } else {
      monomial = multiply(monomial, termOf(factor), context_.scratch_);
    }
  };
  for (const Node* factor : factors) take(take, factor);
  if (monomial.coefficient == 0) return constant(0);

  Poly result;
  if (monomial.count == 0) {
    result.constant = monomial.coefficient;
  } else {
    result.terms.push_back(monomial);
  }
  if (sums.empty()) return node(result);

  size_t expanded = 1;
  Poly next;
  for (const Node* s : sums) {
    readPoly(s, next);
    expanded = std::min(expanded * termCount(next), kMaxExpansion + 1);
  }
  if (expanded <= kMaxExpansion) {
    for (const Node* s : sums) {
      readPoly(s, next);
      result = multiply(result, next, context_.scratch_);
    }
    return node(result);
  }
  throw TooLarge();
}

const Node* Builder::minMax(Kind kind, std::span<const Node* const> operands) {
  bool isMin = kind == Kind::Min;
  SmallVec<const Node*, 8> kept;
  std::optional<int64_t> folded;
  auto take = [&](auto&& self, const Node* operand) -> void {
    if (operand->kind == kind) {
      for (const Node* inner : operand->args()) self(self, inner);
    } else if (operand->kind == Kind::Const) {
      folded = !folded ? operand->value : isMin ? std::min(*folded, operand->value) : std::max(*folded, operand->value);
    } else {
      kept.push_back(operand);
    }
  };
  for (const Node* operand : operands) take(take, operand);
  std::sort(kept.begin(), kept.end(), [](const Node* a, const Node* b) { return compare(a, b) < 0; });
  if (folded) kept.push_back(constant(*folded));
  // Drops what another operand is never worse than.
  auto dominates = [&](const Node* winner, const Node* loser) {
    Range a = rangeOf(winner), b = rangeOf(loser);
    if (isMin ? a.high <= b.low && a.high != Range::kInf : a.low >= b.high && a.low != Range::kNegInf) return true;
    Poly difference, other;
    readPoly(winner, difference);
    readPoly(loser, other);
    addScaled(difference, other, -1);
    Range d = rangeOf(difference);
    return isMin ? d.high <= 0 : d.low >= 0;
  };
  for (size_t i = 0; i < kept.size();) {
    bool dropped = false;
    for (size_t j = 0; j < kept.size() && !dropped; ++j) {
      dropped = i != j && (kept[i] == kept[j] || dominates(kept[j], kept[i]));
    }
    if (dropped) {
      kept.erase(i);
    } else {
      ++i;
    }
  }
  if (kept.size() == 1) return kept[0];
  return intern(kind, 0, kept);
}

}  // namespace saker::sym
