// Comparisons and boolean operators.
#include <algorithm>

#include "symbolic/builder.h"

namespace saker::sym {

const Node* Builder::compareDifference(Kind kind, const Node* a, const Node* b) {
  if (a == b) return boolean(kind != Kind::Ne);
  Poly left, right;
  readPoly(a, left);
  readPoly(b, right);
  addScaled(left, right, -1);
  return compareZero(kind, left);
}

const Node* Builder::compareZero(Kind kind, Poly& d) {
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
  Range range = rangeOf(d);
  if (kind == Kind::Le) {
    if (range.high <= 0) return boolean(true);
    if (range.low > 0) return boolean(false);
    // The end of the range is the only way.
    if (range.low == 0) {
      kind = Kind::Eq;
    } else if (range.high == 1) {
      kind = Kind::Ne;
      d.constant = addChecked(d.constant, -1);
    }
  } else {
    if (!range.contains(0)) return boolean(kind == Kind::Ne);
    if (range.isExact()) return boolean(kind == Kind::Eq);
  }
  if (kind != Kind::Le && d.terms[0].coefficient < 0) scale(d, -1);
  const Node* operands[] = {node(d)};
  return intern(kind, 0, operands);
}

const Node* Builder::logical(Kind kind, std::span<const Node* const> operands) {
  bool isAnd = kind == Kind::And;
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
  std::sort(kept.begin(), kept.end(), [](const Node* a, const Node* b) { return compare(a, b) < 0; });
  size_t count = std::unique(kept.begin(), kept.end()) - kept.begin();
  while (kept.size() > count) kept.pop_back();
  for (const Node* a : kept) {
    const Node* opposite = logicalNot(a);
    if (std::find(kept.begin(), kept.end(), opposite) != kept.end()) return boolean(!isAnd);
  }
  if (kept.empty()) return boolean(isAnd);
  if (kept.size() == 1) return kept[0];
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
    case Kind::Ne:
      return intern(a->kind == Kind::Eq ? Kind::Ne : Kind::Eq, 0, a->args());
    case Kind::Le:
      if (a->count == 1) {
        // not d <= 0 is 1 - d <= 0
        return compareDifference(Kind::Le, constant(1), a->operands[0]);
      }
      [[fallthrough]];
    default: {
      const Node* operands[] = {a};
      return intern(Kind::Not, 0, operands);
    }
  }
}

}  // namespace saker::sym
