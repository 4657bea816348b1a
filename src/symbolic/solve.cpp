// Solving equations for a symbol.
#include "symbolic/bounds.h"
#include "symbolic/builder.h"
#include "symbolic/knowledge.h"

namespace saker::sym {
namespace {

// Replacing a symbol by something larger than this does not make things simpler.
constexpr uint32_t kMaxWeight = 200;
constexpr int kMaxRounds = 24;

bool isSymbolTerm(const Term& t) { return t.count == 1 && t.single->kind == Kind::Symbol; }

// The term is a symbol, and no other term mentions it.
bool isIsolated(const Poly& d, const Term& t) {
  if (!isSymbolTerm(t)) return false;
  int found = 0;
  for (const Term& other : d.terms) {
    for (const Node* atom : other.atoms()) found += mentions(atom, t.single);
  }
  return found == 1;
}

uint64_t magnitude(int64_t value) {
  return value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// Which of two symbols to replace: a hidden one, else the younger.
bool goesFirst(const Node* a, const Node* b) { return a->value > b->value; }

}  // namespace

const Node* Knowledge::newHidden(Context& context, Range range) {
  const Node* symbol = context.hiddenSymbol(kFirstHidden + static_cast<int64_t>(hidden_.size()), range);
  hidden_.push_back({symbol, range, nullptr, nullptr});
  return symbol;
}

// coefficient*symbol + rest == 0 with a coefficient of 1 or -1: the symbol is replaced by what it must be, and its
// range becomes a condition on that.
bool Knowledge::eliminate(const Poly& d, const Term& term, Builder& builder) {
  Poly value;
  addScaled(value, d, -term.coefficient);
  for (size_t i = 0; i < value.terms.size(); ++i) {
    if (isSymbolTerm(value.terms[i]) && value.terms[i].single == term.single) {
      value.terms.erase(i);
      break;
    }
  }
  const Node* node = builder.node(value);
  if (node->weight > kMaxWeight) return false;
  Range range = factsOf(term.single).range;
  settle(term.single, node);
  for (bool low : {true, false}) {
    int64_t end = low ? range.low : range.high;
    if (end == (low ? Range::kNegInf : Range::kInf)) continue;
    Poly bound;
    bound.constant = low ? end : mulChecked(end, -1);
    addScaled(bound, value, low ? -1 : 1);
    pending_.push_back(builder.compareZero(Kind::Le, std::move(bound)));
  }
  return true;
}

// Euclid's algorithm on the coefficients: 2*x == 3*y has x = y + t with 2*t == y, hence y = 2*t and x = 3*t.
bool Knowledge::solve(Poly d, Builder& builder) {
  // What is left is a new equation once a step was taken.
  auto giveUp = [&](int round) {
    if (round > 0) pending_.push_back(builder.compareZero(Kind::Eq, std::move(d)));
    return round > 0;
  };
  for (int round = 0; round < kMaxRounds; ++round) {
    const Term* unit = nullptr;
    const Term* least = nullptr;
    for (const Term& t : d.terms) {
      if (!isIsolated(d, t)) continue;
      if (magnitude(t.coefficient) == 1 && (!unit || goesFirst(t.single, unit->single))) unit = &t;
      if (!least || magnitude(t.coefficient) < magnitude(least->coefficient)) least = &t;
    }
    if (unit && eliminate(d, *unit, builder)) return true;
    bool stuck = unit || !least;
    for (const Term& t : d.terms) stuck = stuck || magnitude(t.coefficient) < magnitude(least->coefficient);
    if (stuck) return giveUp(round);
    // least.coefficient * (symbol + quotients) + remainders == 0
    const Node* symbol = least->single;
    int64_t by = least->coefficient;
    Poly whole, rest;
    whole.constant = sym::floorDiv(d.constant, by);
    rest.constant = floorMod(d.constant, by);
    for (Term t : d.terms) {
      int64_t c = t.coefficient;
      t.coefficient = sym::floorDiv(c, by);
      if (t.coefficient != 0) whole.terms.push_back(t);
      t.coefficient = floorMod(c, by);
      if (t.coefficient != 0) rest.terms.push_back(t);
    }
    const Node* fresh = newHidden(*symbol->context, boundsOf(whole, this));
    Poly definition;  // symbol - fresh + quotients == 0
    definition.terms.push_back({-1, 1, fresh, nullptr});
    addScaled(definition, whole, 1);
    Term self{coefficientOf(definition, {1, 1, symbol, nullptr}), 1, symbol, nullptr};
    if (self.coefficient != 1 || !eliminate(definition, self, builder)) return giveUp(round);
    Poly next;
    next.terms.push_back({by, 1, fresh, nullptr});
    addScaled(next, rest, 1);
    d = std::move(next);
  }
  return giveUp(kMaxRounds);
}

// sign*(x % k) + c == 0: x == k*h + remainder.
bool Knowledge::solveRemainder(const Poly& d, Builder& builder) {
  const Term& t = d.terms[0];
  int64_t k = t.single->operands[1]->value;
  int64_t remainder = mulChecked(d.constant, -t.coefficient);
  Poly x;
  readPoly(t.single->operands[0], x);
  bool hasSymbol = false;
  for (const Term& term : x.terms) hasSymbol |= isIsolated(x, term);
  if (!hasSymbol) return false;
  Range quotient = floorDiv(boundsOf(x, this), Range::exactly(k));
  const Node* hidden = newHidden(*t.single->context, quotient);
  Poly equation;
  equation.terms.push_back({mulChecked(k, -1), 1, hidden, nullptr});
  addScaled(equation, x, 1);
  equation.constant = addChecked(equation.constant, mulChecked(remainder, -1));
  return solve(std::move(equation), builder);
}

// The same for simplify(), which must not show hidden symbols.
void Knowledge::solveVisible(const Node* condition) {
  if (condition->kind == Kind::And) {
    for (const Node* operand : condition->args()) solveVisible(operand);
    return;
  }
  if (condition->kind != Kind::Eq || condition->count != 1) return;
  try {
    Builder builder(*condition->context);
    const Node* mapped = map(condition, Mapping::Visible, builder);
    if (mapped->kind != Kind::Eq || mapped->count != 1) return;
    Poly d;
    readPoly(mapped->operands[0], d);
    const Term* unit = nullptr;
    for (const Term& t : d.terms) {
      if (magnitude(t.coefficient) == 1 && isIsolated(d, t) && (!unit || goesFirst(t.single, unit->single))) unit = &t;
    }
    if (!unit) return;
    const Node* symbol = unit->single;
    Poly value;
    addScaled(value, d, -unit->coefficient);
    Poly self;
    self.terms.push_back({1, 1, symbol, nullptr});
    addScaled(value, self, 1);
    factsOf(symbol).visible = builder.node(value);
    touched_ |= symbol->symbols;
    for (SymbolFacts& facts : symbols_) {
      if (facts.visible && mentions(facts.visible, symbol))
        facts.visible = map(facts.visible, Mapping::Visible, builder);
    }
  } catch (const std::runtime_error&) {  // too large: simplify() does without it
  }
}

}  // namespace saker::sym
