#include "symbolic/imply.h"

#include <algorithm>

#include "symbolic/bounds.h"

namespace saker::sym {
namespace {

constexpr int kMaxAttempts = 300;
constexpr int kMaxCombined = 2;
constexpr int kMaxSplits = 2;
constexpr size_t kMaxKnown = 96;
constexpr size_t kMaxRules = 24;

bool isRuled(Kind kind) {
  return kind == Kind::FloorDiv || kind == Kind::Mod || kind == Kind::Min || kind == Kind::Max;
}

}  // namespace

bool Implication::hasRules(const Node* node) {
  if (isRuled(node->kind)) return true;
  for (const Node* operand : node->args()) {
    if (hasRules(operand)) return true;
  }
  return false;
}

Implication::Implication(const Knowledge& knowledge, const Node* condition)
    : knowledge_(knowledge), condition_(condition), builder_(*condition->context, &knowledge) {
  collect(condition->symbols);
  Poly d;
  readPoly(condition->operands[0], d);
  addRules(d);
}

Implication::Implication(const Knowledge& knowledge, Context& context, uint64_t symbols)
    : knowledge_(knowledge), builder_(context, &knowledge) {
  collect(symbols);
}

// Conditions on these symbols, and those on the symbols of these conditions.
void Implication::collect(uint64_t symbols) {
  for (int round = 0; round < kMaxCombined; ++round) {
    for (const Node* condition : knowledge_.conditions_) {
      if (condition->count == 1 && (condition->symbols & symbols) != 0) symbols |= condition->symbols;
    }
  }
  for (const Node* condition : knowledge_.conditions_) {
    if (condition->count != 1 || (condition->symbols & symbols) == 0) continue;
    if (condition->kind == Kind::Le || condition->kind == Kind::Eq) addKnown(condition->operands[0], 1);
    if (condition->kind == Kind::Eq) addKnown(condition->operands[0], -1);
  }
}

void Implication::addKnown(const Node* d, int64_t sign) {
  if (known_.size() >= kMaxKnown) return;
  Poly poly;
  readPoly(d, poly);
  try {
    if (sign < 0) scale(poly, -1);
  } catch (const Overflow&) {
    return;
  }
  known_.push_back(std::move(poly));
}

void Implication::addRules(const Poly& poly) {
  for (const Term& t : poly.terms) {
    for (const Node* atom : t.atoms()) {
      if (!isRuled(atom->kind) || ruled_.size() >= kMaxRules) continue;
      if (std::find(ruled_.begin(), ruled_.end(), atom) != ruled_.end()) continue;
      ruled_.push_back(atom);
      addRulesOf(atom);
    }
  }
}

void Implication::addRulesOf(const Node* atom) {
  Poly self;
  self.terms.push_back({1, 1, atom, nullptr});
  // a + sign*b + constant <= 0
  auto atMost = [&](const Poly& a, const Poly& b, int64_t sign, int64_t constant) {
    try {
      Poly d = a;
      addScaled(d, b, sign);
      d.constant = addChecked(d.constant, constant);
      known_.push_back(std::move(d));
    } catch (const Overflow&) {
    }
  };
  Poly x, by;
  if (atom->kind == Kind::Min || atom->kind == Kind::Max) {
    for (const Node* operand : atom->args()) {
      readPoly(operand, x);
      if (atom->kind == Kind::Min) {
        atMost(self, x, -1, 0);
      } else {
        atMost(x, self, -1, 0);
      }
    }
    return;
  }
  readPoly(atom->operands[0], x);
  readPoly(atom->operands[1], by);
  if (knowledge_.rangeOf(atom->operands[1]).low <= 0) return;
  if (atom->kind == Kind::Mod) {
    if (!by.isConst()) atMost(self, by, -1, 1);
    if (knowledge_.rangeOf(atom->operands[0]).low >= 0) atMost(self, x, -1, 0);
    return;
  }
  // by*(x//by) <= x < by*(x//by) + by
  try {
    Poly whole = builder_.times(self, by);
    atMost(whole, x, -1, 0);
    addScaled(whole, by, 1);
    atMost(x, whole, -1, 1);
  } catch (const Overflow&) {
  }
}

bool Implication::isAtMostZero(const Poly& d) {
  attempts_ = 0;
  return search(d, 0) || splitMinMax(d, 0);
}

bool Implication::search(const Poly& d, int depth) {
  if (boundsOf(d, &knowledge_).high <= 0) return true;
  if (depth == kMaxCombined) return false;
  for (const Poly& known : known_) {
    for (const Term& t : d.terms) {
      int64_t other = coefficientOf(known, t);
      if (other == 0 || (other > 0) != (t.coefficient > 0)) continue;
      if (++attempts_ > kMaxAttempts) return false;
      try {
        int64_t common = gcdChecked(other, t.coefficient);
        int64_t scaleD = other / common, scaleKnown = t.coefficient / common;
        if (scaleD < 0) {
          scaleD = mulChecked(scaleD, -1);
          scaleKnown = mulChecked(scaleKnown, -1);
        }
        Poly rest;
        addScaled(rest, d, scaleD);
        addScaled(rest, known, mulChecked(scaleKnown, -1));
        int64_t shared = coefficientGcd(rest);
        if (shared > 1) {
          rest.constant = sym::floorDiv(rest.constant, shared) + (rest.constant % shared != 0);
          for (Term& r : rest.terms) r.coefficient /= shared;
        }
        if (search(rest, depth + 1)) return true;
      } catch (const Overflow&) {
      }
    }
  }
  return false;
}

// A maximum is one of its operands: what holds for each of them holds for it.
bool Implication::splitMinMax(const Poly& d, int depth) {
  if (depth == kMaxSplits) return false;
  for (size_t i = 0; i < d.terms.size(); ++i) {
    Term t = d.terms[i];
    if (t.count != 1 || (t.single->kind != Kind::Min && t.single->kind != Kind::Max)) continue;
    bool all = true;
    for (const Node* operand : t.single->args()) {
      Poly replaced = d, value;
      replaced.terms.erase(i);
      readPoly(operand, value);
      try {
        addScaled(replaced, value, t.coefficient);
      } catch (const Overflow&) {
        return false;
      }
      all = search(replaced, 0) || splitMinMax(replaced, depth + 1);
      if (!all) break;
    }
    if (all) return true;
  }
  return false;
}

// sign*d + plus <= 0
bool Implication::withConstant(const Poly& d, int64_t sign, int64_t plus) {
  try {
    Poly changed;
    addScaled(changed, d, sign);
    changed.constant = addChecked(changed.constant, plus);
    return isAtMostZero(changed);
  } catch (const Overflow&) {
    return false;
  }
}

std::optional<bool> Implication::answer() {
  if (known_.empty() && ruled_.empty()) return std::nullopt;
  Poly d;
  readPoly(condition_->operands[0], d);
  if (condition_->kind == Kind::Le) {
    if (isAtMostZero(d)) return true;
    if (withConstant(d, -1, 1)) return false;
    return std::nullopt;
  }
  bool isEq = condition_->kind == Kind::Eq;
  if (withConstant(d, 1, 1) || withConstant(d, -1, 1)) return !isEq;
  if (isAtMostZero(d) && withConstant(d, -1, 0)) return isEq;
  return std::nullopt;
}

}  // namespace saker::sym
