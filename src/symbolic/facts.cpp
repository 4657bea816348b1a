#include "symbolic/facts.h"

#include <algorithm>

#include "support/check.h"
#include "symbolic/bounds.h"
#include "symbolic/context.h"

namespace saker::sym {

void Facts::setRange(const Node* symbol, Range range) {
  size_t index = static_cast<size_t>(symbol->value);
  ranges_.resize(index + 1);
  ranges_[index] = range;
}

Range Facts::rangeOf(const Node* value) const {
  if (value->kind == Kind::Symbol) return ranges_[static_cast<size_t>(value->value)];
  if (value->kind == Kind::Const) return value->range;
  return intersect(value->range,
                   nodeBounds(value->kind, value->value, value->args(), [this](const Node* n) { return rangeOf(n); }));
}

bool Facts::assume(const Node* condition) {
  std::optional<bool> known = prove(condition);
  if (known) return *known;
  if (condition->kind == Kind::And) {
    Facts before = *this;
    for (const Node* operand : condition->args()) {
      if (!assume(operand)) {
        *this = std::move(before);
        return false;
      }
    }
    return true;
  }
  if (condition->count == 1 && (condition->kind == Kind::Eq || condition->kind == Kind::Le)) {
    // A bound of one symbol: c*s + k compared with 0, where c is 1 or -1.
    Poly d;
    readPoly(condition->operands[0], d);
    if (d.terms.size() == 1 && d.terms[0].count == 1 && d.terms[0].single->kind == Kind::Symbol) {
      int64_t c = d.terms[0].coefficient, bound = mulChecked(d.constant, -c);
      Range& range = ranges_[static_cast<size_t>(d.terms[0].single->value)];
      Range allowed = condition->kind == Kind::Eq ? Range::exactly(bound)
                      : c > 0                     ? Range::atMost(bound)
                                                  : Range::atLeast(bound);
      range = intersect(range, allowed);
    }
  }
  conditions_.push_back(condition);
  assumed_.push_back(condition);
  return true;
}

std::optional<bool> Facts::prove(const Node* condition) const {
  switch (condition->kind) {
    case Kind::BoolConst:
      return condition->value != 0;
    case Kind::Eq:
    case Kind::Ne:
    case Kind::Le:
      if (condition->count == 1) {
        Range d = rangeOf(condition->operands[0]);
        if (condition->kind == Kind::Le) {
          if (d.high <= 0) return true;
          if (d.low > 0) return false;
        } else {
          if (!d.contains(0)) return condition->kind == Kind::Ne;
          if (d.isExact()) return condition->kind == Kind::Eq;
        }
      }
      break;
    case Kind::And:
    case Kind::Or: {
      bool all = true;
      for (const Node* operand : condition->args()) {
        std::optional<bool> known = prove(operand);
        if (known && *known != (condition->kind == Kind::And)) return known;
        all &= known.has_value();
      }
      if (all) return condition->kind == Kind::And;
      break;
    }
    default:
      break;
  }
  for (const Node* known : conditions_) {
    if (known == condition) return true;
    if (known->kind != Kind::And && condition->context->logicalNot(known) == condition) return false;
  }
  return std::nullopt;
}

const Node* Facts::simplify(const Node* value) const { return value; }

}  // namespace saker::sym
