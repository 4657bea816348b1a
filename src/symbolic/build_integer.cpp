// Sums, products, minima and maxima.
#include <algorithm>

#include "symbolic/bounds.h"
#include "symbolic/builder.h"

namespace saker::sym {
namespace {

// A product with more terms than this stays a product of sums.
constexpr size_t kMaxExpansion = 64;
constexpr uint32_t kMaxDegree = 64;
// Operands of min and max are compared with each other up to this many.
constexpr size_t kMaxPairs = 12;

size_t termCount(const Node* sum) { return sum->count + (sum->value != 0); }

bool isFactored(const Node* node) {
  if (node->kind != Kind::Mul) return false;
  for (const Node* factor : node->args()) {
    if (factor->kind == Kind::Add) return true;
  }
  return false;
}

bool structurally(const Node* a, const Node* b) { return compare(a, b) < 0; }

}  // namespace

const Node* Builder::intern(Kind kind, int64_t value, std::span<const Node* const> operands) {
  return context_.intern(kind, static_cast<uint64_t>(value), operands);
}

Range Builder::rangeOf(const Poly& poly) const { return boundsOf(poly, known_); }

bool Builder::nonZero(const Term& monomial) const {
  for (const Node* atom : monomial.atoms()) {
    if (!nonZero(atom)) return false;
  }
  return true;
}

const Node* Builder::term(const Term& term) {
  if (term.count == 0) return constant(term.coefficient);
  if (term.count == 1 && term.coefficient == 1) return term.single;
  if (term.count > kMaxDegree) throw TooLarge();
  return intern(Kind::Mul, term.coefficient, term.atoms());
}

const Node* Builder::node(const Poly& poly) {
  if (poly.terms.empty()) return constant(poly.constant);
  if (poly.terms.size() == 1 && poly.constant == 0) return term(poly.terms[0]);
  SmallVec<const Node*, 8> operands;
  for (const Term& t : poly.terms) operands.push_back(term(t));
  return intern(Kind::Add, poly.constant, operands);
}

const Node* Builder::sum(Poly& poly) {
  recombine(poly);
  return node(poly);
}

const Node* Builder::sum(std::span<const Node* const> terms) {
  Poly total, next;
  if (terms.size() <= 2) {
    for (const Node* t : terms) {
      readPoly(t, next);
      addScaled(total, next, 1);
    }
  } else {
    for (const Node* t : terms) {
      readPoly(t, next);
      total.constant = addChecked(total.constant, next.constant);
      total.terms.append(next.terms);
    }
    normalize(total);
  }
  return sum(total);
}

const Node* Builder::sub(const Node* a, const Node* b) {
  if (a == b) return constant(0);
  Poly left, right;
  readPoly(a, left);
  readPoly(b, right);
  addScaled(left, right, -1);
  return sum(left);
}

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
      if (monomial.count > kMaxDegree) throw TooLarge();
    }
  };
  for (const Node* factor : factors) take(take, factor);
  if (monomial.coefficient == 0) return constant(0);
  if (sums.empty()) {
    if (!askRemainders_ || monomial.count == 0) return term(monomial);
    Poly alone;
    alone.terms.push_back(monomial);
    return sum(alone);
  }

  // Sums are multiplied out, the smallest first, while that stays small.
  auto smaller = [](const Node* a, const Node* b) {
    return termCount(a) != termCount(b) ? termCount(a) < termCount(b) : compare(a, b) < 0;
  };
  while (sums.size() > 1) {
    if (sums.size() > kMaxDegree) throw TooLarge();
    std::sort(sums.begin(), sums.end(), smaller);
    if (termCount(sums[0]) * termCount(sums[1]) > kMaxExpansion) return factored(monomial, sums);
    Poly left, right;
    readPoly(sums[0], left);
    readPoly(sums[1], right);
    sums.erase(0);
    Poly expanded = times(left, right);
    const Node* both = sum(expanded);
    if (both->kind != Kind::Add) {  // a rule for divisions made it simpler
      SmallVec<const Node*, 8> again(sums);
      again[0] = both;
      again.push_back(term(monomial));
      return product(again);
    }
    sums[0] = both;
  }
  Poly result;
  readPoly(sums[0], result);
  if (monomial.count == 0) {
    scale(result, monomial.coefficient);
  } else {
    Poly factor;
    factor.terms.push_back(monomial);
    result = times(result, factor);
  }
  return sum(result);
}

// A product of sums that are too long to be multiplied out: each without its common divisor, which joins the monomial.
const Node* Builder::factored(Term monomial, std::span<const Node* const> sums) {
  SmallVec<const Node*, 8> kept;
  for (const Node* s : sums) {
    Poly poly;
    readPoly(s, poly);
    int64_t common = gcdChecked(coefficientGcd(poly), poly.constant);
    if (poly.terms[0].coefficient < 0) common = -common;
    monomial.coefficient = mulChecked(monomial.coefficient, common);
    poly.constant = divChecked(poly.constant, common);
    for (Term& t : poly.terms) t.coefficient = divChecked(t.coefficient, common);
    Term atoms = commonAtoms(poly, context_.scratch_);
    if (atoms.count != 0) {
      for (Term& t : poly.terms) t = divide(t, atoms, context_.scratch_);
      moveConstant(poly);
      monomial = multiply(monomial, atoms, context_.scratch_);
    }
    kept.push_back(node(poly));
  }
  for (const Node* atom : monomial.atoms()) kept.push_back(atom);
  if (kept.size() > kMaxDegree) throw TooLarge();
  std::sort(kept.begin(), kept.end(), structurally);
  return intern(Kind::Mul, monomial.coefficient, kept);
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
  // No number is beyond the last one of 64 bits.
  bool isIdle = !kept.empty() && folded == (isMin ? Range::kInf : Range::kNegInf);
  if (folded && !isIdle) kept.push_back(constant(*folded));
  std::sort(kept.begin(), kept.end(), structurally);
  size_t distinct = static_cast<size_t>(std::unique(kept.begin(), kept.end()) - kept.begin());
  while (kept.size() > distinct) kept.pop_back();

  // Drops what another operand is never worse than: first by one bound for all.
  size_t best = 0;
  auto certain = [&](size_t i) { return isMin ? rangeOf(kept[i]).high : rangeOf(kept[i]).low; };
  for (size_t i = 1; i < kept.size(); ++i) {
    if (isMin ? certain(i) < certain(best) : certain(i) > certain(best)) best = i;
  }
  const Node* winner = kept[best];
  int64_t bound = certain(best);
  if (bound != (isMin ? Range::kInf : Range::kNegInf)) {
    auto beaten = [&](const Node* n) {
      return n != winner && (isMin ? rangeOf(n).low >= bound : rangeOf(n).high <= bound);
    };
    size_t left = static_cast<size_t>(std::remove_if(kept.begin(), kept.end(), beaten) - kept.begin());
    while (kept.size() > left) kept.pop_back();
  }
  if (kept.size() <= kMaxPairs) {
    auto beaten = [&](const Node* loser) {
      for (const Node* other : kept) {
        if (other == loser) continue;
        // min(a, max(a, b)) is a
        if (loser->kind == (isMin ? Kind::Max : Kind::Min) &&
            std::find(loser->args().begin(), loser->args().end(), other) != loser->args().end()) {
          return true;
        }
        Poly difference, minus;
        readPoly(other, difference);
        readPoly(loser, minus);
        try {
          addScaled(difference, minus, -1);
        } catch (const Overflow&) {
          continue;
        }
        Range d = rangeOf(difference);
        if (isMin ? d.high <= 0 : d.low >= 0) return true;
      }
      return false;
    };
    for (size_t i = 0; i < kept.size();) {
      if (beaten(kept[i])) {
        kept.erase(i);
      } else {
        ++i;
      }
    }
  }
  if (kept.size() == 1) return kept[0];
  // Numbers read better at the end.
  if (kept[0]->kind == Kind::Const) std::rotate(kept.begin(), kept.begin() + 1, kept.end());
  return intern(kind, 0, kept);
}

}  // namespace saker::sym
