// Comparisons and boolean operators.
#include <algorithm>

#include "symbolic/builder.h"

namespace saker::sym {
namespace {

// Operands of `and` and `or` are compared with each other up to this many.
constexpr size_t kMaxPairs = 12;

// x <= INT64_MAX and x >= INT64_MIN: what an atom stands for has 64 bits. The first has no opposite to be written.
bool isTrueOf64Bits(const Poly& d) {
  if (d.terms.size() != 1 || d.terms[0].count != 1) return false;
  if (d.terms[0].coefficient == 1) return d.constant <= -Range::kInf;
  return d.terms[0].coefficient == -1 && d.constant == Range::kNegInf;
}

}  // namespace

// A comparison as d <= 0. Equations and their opposites are bounds too at the end of a range.
bool Builder::readBound(const Node* node, Poly& d) {
  if (node->count != 1 || !node->operands[0]->isInt()) return false;
  readPoly(node->operands[0], d);
  if (node->kind == Kind::Le) return true;
  Range range = rangeOf(d);
  if ((node->kind != Kind::Eq && node->kind != Kind::Ne) || (range.low != 0 && range.high != 0)) return false;
  if ((range.low == 0) == (node->kind == Kind::Ne)) scale(d, -1);
  if (node->kind == Kind::Ne) d.constant = addChecked(d.constant, 1);
  return true;
}

const Node* Builder::compareInts(Kind kind, const Node* a, const Node* b) {
  if (a == b) return boolean(kind != Kind::Ne);
  Poly left, right;
  readPoly(a, left);
  readPoly(b, right);
  addScaled(left, right, -1);
  return compareZero(kind, std::move(left));
}

// Factors of all terms whose sign is known say nothing about zero: p*x <= 0 is x <= 0 for positive p, and p*x >= 1,
// which is p*x > 0, is x >= 1.
bool Builder::dropCommonFactor(Kind kind, Poly& d) {
  bool strict = kind == Kind::Le && d.constant == 1;
  if ((d.constant != 0 && !strict) || d.terms[0].count < 2) return false;
  d.constant = 0;
  Term shared = commonAtoms(d, context_.scratch_);
  SmallVec<const Node*, 8> safe;
  bool flip = false;
  for (const Node* atom : shared.atoms()) {
    Range range = rangeOf(atom);
    if (range.contains(0)) continue;
    safe.push_back(atom);
    flip ^= range.high < 0;
  }
  if (!safe.empty()) {
    Term factor{1, static_cast<uint32_t>(safe.size()), safe[0], safe.data()};
    for (Term& t : d.terms) t = divide(t, factor, context_.scratch_);
    moveConstant(d);
    if (flip && kind == Kind::Le) scale(d, -1);
  }
  if (strict) d.constant = addChecked(d.constant, 1);
  return !safe.empty();
}

// x//k <= c is x <= c*k + k - 1, and x//k >= c is x >= c*k.
const Node* Builder::compareDivision(const Poly& d) {
  if (d.terms.size() != 1 || d.terms[0].count != 1) return nullptr;
  const Term& t = d.terms[0];
  if (t.single->kind != Kind::FloorDiv || t.single->operands[1]->kind != Kind::Const) return nullptr;
  int64_t k = t.single->operands[1]->value;
  if (k <= 0 || (t.coefficient != 1 && t.coefficient != -1)) return nullptr;
  Poly x;
  readPoly(t.single->operands[0], x);
  try {
    scale(x, t.coefficient);
    x.constant = addChecked(x.constant, mulChecked(d.constant, k));
    if (t.coefficient == 1) x.constant = addChecked(x.constant, 1 - k);
    return compareZero(Kind::Le, std::move(x));
  } catch (const Overflow&) {
    return nullptr;
  }
}

const Node* Builder::compareZero(Kind kind, Poly d) {
  for (;;) {
    recombine(d);
    if (d.isConst()) {
      return boolean(kind == Kind::Le ? d.constant <= 0 : (d.constant == 0) == (kind == Kind::Eq));
    }
    int64_t common = coefficientGcd(d);
    if (common > 1) {
      if (kind == Kind::Le) {
        d.constant = sym::floorDiv(d.constant, common) + (d.constant % common != 0);  // rounded up
      } else if (d.constant % common != 0) {
        return boolean(kind == Kind::Ne);
      } else {
        d.constant /= common;
      }
      for (Term& t : d.terms) t.coefficient /= common;
    }
    if (!dropCommonFactor(kind, d) && common == 1) break;
  }
  Range range = rangeOf(d);
  if (kind == Kind::Le) {
    if (range.high <= 0 || isTrueOf64Bits(d)) return boolean(true);
    if (range.low > 0) return boolean(false);
    if (const Node* simpler = compareDivision(d)) return simpler;
    // Where only the end of the range is left it is an equation, where only the end is out its opposite.
    if (range.low == 0) {
      kind = Kind::Eq;
    } else if (range.high == 1) {
      kind = Kind::Ne;
      d.constant = addChecked(d.constant, -1);
      range = range + Range::exactly(-1);
    }
  }
  if (kind != Kind::Le) {
    if (!range.contains(0)) return boolean(kind == Kind::Ne);
    if (range.isExact()) return boolean(kind == Kind::Eq);
    // Of two values, not one is the other.
    if (kind == Kind::Ne && range.low >= -1 && range.high <= 1 && range.high - range.low == 1) {
      d.constant = addChecked(d.constant, range.low == 0 ? -1 : 1);
      kind = Kind::Eq;
    }
    if (d.terms[0].coefficient < 0) scale(d, -1);
  }
  const Node* operands[] = {node(d)};
  return intern(kind, 0, operands);
}

// Bounds of the same expression: the tighter one is enough for `and`, the looser for `or`; opposite ones may leave
// nothing or everything. True if the whole is decided by that.
bool Builder::mergeComparisons(Kind kind, SmallVec<const Node*, 8>& kept) {
  bool isAnd = kind == Kind::And;
  for (size_t i = 0; i < kept.size(); ++i) {
    Poly a;
    if (!readBound(kept[i], a)) continue;
    for (size_t j = i + 1; j < kept.size();) {
      Poly b, both, difference;
      if (!readBound(kept[j], b)) {
        ++j;
        continue;
      }
      addScaled(both, a, 1);
      addScaled(both, b, 1);
      addScaled(difference, a, 1);
      addScaled(difference, b, -1);
      if (both.isConst() && (isAnd ? both.constant > 0 : both.constant <= 1)) return true;
      bool equation = both.isConst() && isAnd && both.constant == 0;
      bool takeOther = difference.isConst() && (difference.constant < 0) == isAnd;
      if (!equation && !difference.isConst()) {
        ++j;
        continue;
      }
      if (equation) kept[i] = compareZero(Kind::Eq, a);
      if (!equation && takeOther) kept[i] = kept[j];
      kept.erase(j);
      if (!equation && !takeOther) continue;
      if (!readBound(kept[i], a)) break;
      j = i + 1;
    }
  }
  return false;
}

const Node* Builder::logical(Kind kind, std::span<const Node* const> operands) {
  bool isAnd = kind == Kind::And;
  Kind other = isAnd ? Kind::Or : Kind::And;
  SmallVec<const Node*, 8> kept;
  bool absorbed = false;
  auto take = [&](auto&& self, const Node* operand) -> void {
    if (operand->kind == kind) {
      for (const Node* inner : operand->args()) self(self, inner);
    } else if (operand->kind == Kind::BoolConst) {
      absorbed |= (operand->value != 0) != isAnd;
    } else {
      kept.push_back(operand);
    }
  };
  for (const Node* operand : operands) take(take, operand);
  if (absorbed) return boolean(!isAnd);
  auto before = [](const Node* a, const Node* b) { return compare(a, b) < 0; };
  std::sort(kept.begin(), kept.end(), before);
  size_t count = static_cast<size_t>(std::unique(kept.begin(), kept.end()) - kept.begin());
  while (kept.size() > count) kept.pop_back();
  try {
    if (count <= kMaxPairs && mergeComparisons(kind, kept)) return boolean(!isAnd);
    if (kept.size() < count) return logical(kind, kept);
  } catch (const Overflow&) {  // then they stay side by side
  }
  auto contains = [&](const Node* node) { return std::binary_search(kept.begin(), kept.end(), node, before); };
  auto hasOpposite = [&](const Node* node) {
    try {
      return contains(logicalNot(node));
    } catch (const Overflow&) {
      return false;
    }
  };
  for (size_t i = 0; i < kept.size() && kept.size() > 1;) {
    const Node* operand = kept[i];
    if (operand->kind != other && hasOpposite(operand)) return boolean(!isAnd);
    // a and (a or b) is a
    bool implied = operand->kind == other && std::any_of(operand->args().begin(), operand->args().end(), contains);
    if (implied) {
      kept.erase(i);
    } else {
      ++i;
    }
  }
  if (kept.empty()) return boolean(isAnd);
  if (kept.size() == 1) return kept[0];
  if (count > kMaxPairs && kept.size() <= kMaxPairs) return logical(kind, kept);
  return intern(kind, 0, kept);
}

const Node* Builder::logicalNot(const Node* a) {
  switch (a->kind) {
    case Kind::BoolConst:
      return boolean(a->value == 0);
    case Kind::Not:
      return a->operands[0];
    case Kind::And:
    case Kind::Or: {
      SmallVec<const Node*, 8> opposites;
      for (const Node* operand : a->args()) opposites.push_back(logicalNot(operand));
      return logical(a->kind == Kind::And ? Kind::Or : Kind::And, opposites);
    }
    case Kind::Eq:
    case Kind::Ne: {
      Kind opposite = a->kind == Kind::Eq ? Kind::Ne : Kind::Eq;
      if (a->count == 2) return intern(opposite, 0, a->args());
      return compareInts(opposite, a->operands[0], constant(0));
    }
    case Kind::Le:
      if (a->count == 1) return compareInts(Kind::Le, constant(1), a->operands[0]);  // not d <= 0 is 1 - d <= 0
      [[fallthrough]];
    default: {
      const Node* operands[] = {a};
      return intern(Kind::Not, 0, operands);
    }
  }
}

}  // namespace saker::sym
