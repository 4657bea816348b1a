// Growing Knowledge by a condition: it is reduced, taken apart, and what it changes is looked at again.
#include "symbolic/bounds.h"
#include "symbolic/builder.h"
#include "symbolic/imply.h"
#include "symbolic/knowledge.h"

namespace saker::sym {
namespace {

using Wide = __int128;

// Bounds that narrow each other may go on for long; after this many steps they stay as they are.
constexpr int kMaxNarrowings = 100;

Wide floorQuotient(Wide a, Wide b) {
  Wide q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
Wide ceilQuotient(Wide a, Wide b) { return -floorQuotient(-a, b); }

Range atMost(Wide bound) {
  if (bound >= Range::kInf) return Range::all();
  return Range::atMost(bound < Range::kNegInf ? Range::kNegInf : static_cast<int64_t>(bound));
}
Range atLeast(Wide bound) {
  if (bound <= Range::kNegInf) return Range::all();
  return Range::atLeast(bound > Range::kInf ? Range::kInf : static_cast<int64_t>(bound));
}

}  // namespace

bool Knowledge::add(const Node* condition) {
  memo_ = {};
  narrowings_ = 0;
  pending_ = {condition};
  // Also guards against conditions that rewrite each other.
  for (int step = 0; !pending_.empty(); ++step) {
    const Node* next = pending_.back();
    pending_.pop_back();
    if (step > 1000) {
      conditions_.push_back(next);
    } else if (!process(next)) {
      return false;
    }
  }
  memo_ = {};
  solveVisible(condition);
  assumed_.push_back(condition);
  touched_ |= condition->symbols;
  return true;
}

bool Knowledge::process(const Node* condition) {
  try {
    const Node* reduced = reduce(condition);
    if (std::optional<bool> known = proveReduced(reduced)) return *known;
    return absorb(reduced);
  } catch (const std::runtime_error&) {  // too large to reason about: kept to be recognised
    conditions_.push_back(condition);
    return true;
  }
}

bool Knowledge::absorb(const Node* condition) {
  Builder builder(*condition->context, this);
  switch (condition->kind) {
    case Kind::And:
      for (const Node* operand : condition->args()) pending_.push_back(operand);
      return true;
    case Kind::BoolSymbol:
      settle(condition, condition->context->boolConst(true));
      return true;
    case Kind::Not:
      if (condition->operands[0]->kind == Kind::BoolSymbol) {
        settle(condition->operands[0], condition->context->boolConst(false));
        return true;
      }
      break;
    case Kind::Le:
      if (condition->count == 1) return absorbBound(condition, builder);
      break;
    case Kind::Ne:
      if (condition->count == 1) return absorbDisequation(condition, builder);
      break;
    case Kind::Eq: {
      if (condition->count == 1) return absorbEquation(condition, builder);
      // A float that equals a number is that number, except zero, which has two signs.
      const Node *a = condition->operands[0], *b = condition->operands[1];
      if (b->kind == Kind::FloatSymbol) std::swap(a, b);
      if (a->kind == Kind::FloatSymbol && b->kind == Kind::FloatConst && b->number != 0) {
        settle(a, b);
        return true;
      }
      break;
    }
    default:
      break;
  }
  conditions_.push_back(condition);
  return true;
}

// d <= 0
bool Knowledge::absorbBound(const Node* condition, Builder& builder) {
  Poly d;
  readPoly(condition->operands[0], d);
  // A maximum is at most something if all its operands are.
  for (size_t i = 0; i < d.terms.size(); ++i) {
    Term t = d.terms[i];
    if (t.count != 1 || t.single->kind != (t.coefficient > 0 ? Kind::Max : Kind::Min)) continue;
    for (const Node* operand : t.single->args()) {
      Poly replaced = d, value;
      replaced.terms.erase(i);
      readPoly(operand, value);
      addScaled(replaced, value, t.coefficient);
      pending_.push_back(builder.compareZero(Kind::Le, std::move(replaced)));
    }
    return true;
  }
  Poly opposite;
  addScaled(opposite, d, -1);
  if (Implication(*this, *condition->context, condition->symbols).isAtMostZero(opposite)) {
    pending_.push_back(builder.compareZero(Kind::Eq, std::move(d)));
    return true;
  }
  for (size_t i = 0; i < conditions_.size(); ++i) {
    // d <= 0 and d != 0: d <= -1
    if (conditions_[i]->kind != Kind::Ne || conditions_[i]->count != 1) continue;
    Poly other, sum, difference;
    readPoly(conditions_[i]->operands[0], other);
    addScaled(sum, d, 1);
    addScaled(sum, other, 1);
    addScaled(difference, d, 1);
    addScaled(difference, other, -1);
    bool same = (sum.isConst() && sum.constant == 0) || (difference.isConst() && difference.constant == 0);
    if (!same) continue;
    conditions_.erase(conditions_.begin() + static_cast<ptrdiff_t>(i));
    d.constant = addChecked(d.constant, 1);
    pending_.push_back(builder.compareZero(Kind::Le, std::move(d)));
    return true;
  }
  // The range of a symbol says it all; other bounds are kept.
  bool isRange = d.terms.size() == 1 && d.terms[0].count == 1 && d.terms[0].single->kind == Kind::Symbol;
  if (!tighten(d)) return false;
  if (!isRange) conditions_.push_back(condition);
  return true;
}

// d == 0
bool Knowledge::absorbEquation(const Node* condition, Builder& builder) {
  Poly d;
  readPoly(condition->operands[0], d);
  const Term& t = d.terms[0];
  bool isAtom = d.terms.size() == 1 && t.count == 1 && (t.coefficient == 1 || t.coefficient == -1);
  bool byNumber = isAtom && (t.single->kind == Kind::FloorDiv || t.single->kind == Kind::Mod) &&
                  t.single->operands[1]->kind == Kind::Const && t.single->operands[1]->value > 0;
  if (byNumber && t.single->kind == Kind::FloorDiv) {
    // x//k == v is v*k <= x <= v*k + k - 1.
    int64_t k = t.single->operands[1]->value, v = mulChecked(d.constant, -t.coefficient);
    Poly x, low;
    readPoly(t.single->operands[0], x);
    low.constant = mulChecked(v, k);
    addScaled(low, x, -1);
    x.constant = addChecked(x.constant, addChecked(mulChecked(mulChecked(v, k), -1), 1 - k));
    pending_.push_back(builder.compareZero(Kind::Le, std::move(low)));
    pending_.push_back(builder.compareZero(Kind::Le, std::move(x)));
    return true;
  }
  if (byNumber ? solveRemainder(d, builder) : solve(d, builder)) return true;
  Poly opposite;
  addScaled(opposite, d, -1);
  if (!tighten(d) || !tighten(opposite)) return false;
  conditions_.push_back(condition);
  return true;
}

// d != 0
bool Knowledge::absorbDisequation(const Node* condition, Builder& builder) {
  Poly d;
  readPoly(condition->operands[0], d);
  if (d.terms.size() == 1 && d.constant == 0) {
    // A product is not zero: no factor is.
    for (const Node* atom : d.terms[0].atoms()) {
      if (d.terms[0].count == 1) break;
      Poly factor;
      readPoly(atom, factor);
      pending_.push_back(builder.compareZero(Kind::Ne, std::move(factor)));
    }
    if (d.terms[0].count > 1) return true;
  }
  if (d.terms.size() == 1 && d.terms[0].count == 1 && d.terms[0].single->kind == Kind::Symbol &&
      d.terms[0].coefficient == 1) {
    const Node* symbol = d.terms[0].single;
    Range range = factsOf(symbol).range;
    int64_t value = mulChecked(d.constant, -1);
    bool finite = value != Range::kInf && value != Range::kNegInf;
    if (finite && (value == range.low || value == range.high)) {
      return narrow(symbol, value == range.low ? Range::atLeast(value + 1) : Range::atMost(value - 1));
    }
  }
  // Where one side is out already, the other is a bound.
  Implication known(*this, *condition->context, condition->symbols);
  for (int64_t sign : {1, -1}) {
    Poly side;
    addScaled(side, d, sign);
    if (!known.isAtMostZero(side)) continue;
    side.constant = addChecked(side.constant, 1);
    pending_.push_back(builder.compareZero(Kind::Le, std::move(side)));
    return true;
  }
  conditions_.push_back(condition);
  return true;
}

// What d <= 0 says about each symbol in it, given the bounds of the others.
bool Knowledge::tighten(const Poly& d) {
  int infinite = 0;
  Wide lows = d.constant;
  for (const Term& t : d.terms) {
    int64_t low = boundsOf(t, this).low;
    if (low == Range::kNegInf) {
      ++infinite;
    } else {
      lows += low;
    }
  }
  for (const Term& t : d.terms) {
    int64_t low = boundsOf(t, this).low;
    if (infinite > (low == Range::kNegInf)) continue;
    Wide limit = -(low == Range::kNegInf ? lows : lows - low);  // t <= limit
    if (t.count != 1) {
      if (!tightenFactors(t, limit)) return false;
    } else if (t.single->kind == Kind::Symbol) {
      Range range =
          t.coefficient > 0 ? atMost(floorQuotient(limit, t.coefficient)) : atLeast(ceilQuotient(limit, t.coefficient));
      if (!narrow(t.single, range)) return false;
    }
    // Bounds that just moved only make this one more careful than it had to be.
  }
  return true;
}

// c * x * y * ... <= limit, for positive factors.
bool Knowledge::tightenFactors(const Term& term, Wide limit) {
  auto atoms = term.atoms();
  if (term.coefficient <= 0) return true;
  for (const Node* atom : atoms) {
    if (rangeOf(atom).low <= 0) return true;
  }
  for (size_t i = 0; i < atoms.size(); ++i) {
    if (atoms[i]->kind != Kind::Symbol) continue;
    Wide others = term.coefficient;
    for (size_t j = 0; j < atoms.size(); ++j) {
      if (j != i && __builtin_mul_overflow(others, Wide{rangeOf(atoms[j]).low}, &others)) return true;
    }
    if (!narrow(atoms[i], atMost(floorQuotient(limit, others)))) return false;
  }
  return true;
}

bool Knowledge::narrow(const Node* symbol, Range range) {
  SymbolFacts& facts = factsOf(symbol);
  Range narrower = intersect(facts.range, range);
  if (narrower == facts.range) return true;
  if (narrower.empty()) return false;
  facts.range = narrower;
  touched_ |= symbol->symbols;
  ++narrowings_;
  if (narrower.isExact()) {
    settle(symbol, symbol->context->intConst(narrower.low));
  } else if (narrowings_ < kMaxNarrowings) {
    changed(symbol);
  }
  return true;
}

// The symbol is this from now on.
void Knowledge::settle(const Node* symbol, const Node* value) {
  SymbolFacts& facts = factsOf(symbol);
  facts.solved = value;
  if (value->count == 0 && !value->isSymbol()) facts.visible = value;
  touched_ |= symbol->symbols;
  changed(symbol);
}

// Conditions with the symbol are looked at again; solutions that contain it are reduced.
void Knowledge::changed(const Node* symbol) {
  size_t kept = 0;
  for (const Node* condition : conditions_) {
    if (mentions(condition, symbol)) {
      pending_.push_back(condition);
    } else {
      conditions_[kept++] = condition;
    }
  }
  conditions_.resize(kept);
  for (std::vector<SymbolFacts>* all : {&symbols_, &hidden_}) {
    for (SymbolFacts& facts : *all) {
      if (!facts.solved || !mentions(facts.solved, symbol)) continue;
      try {
        facts.solved = reduce(facts.solved);
      } catch (const std::runtime_error&) {  // too large: what it was is still true
      }
    }
  }
}

}  // namespace saker::sym
