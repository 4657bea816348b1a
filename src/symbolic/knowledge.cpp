#include "symbolic/knowledge.h"

#include <algorithm>

#include "support/check.h"
#include "symbolic/bounds.h"
#include "symbolic/builder.h"
#include "symbolic/imply.h"

namespace saker::sym {

// Of simplifying what was simplified. One is nearly always enough.
static constexpr int kMaxRounds = 8;

bool mentions(const Node* node, const Node* symbol) {
  if (node == symbol) return true;
  if ((node->symbols & symbol->symbols) == 0) return false;
  for (const Node* operand : node->args()) {
    if (mentions(operand, symbol)) return true;
  }
  return false;
}

Knowledge::Knowledge(const Knowledge& other)
    : symbols_(other.symbols_),
      hidden_(other.hidden_),
      conditions_(other.conditions_),
      assumed_(other.assumed_),
      touched_(other.touched_) {}

void Knowledge::declare(const Node* symbol, Range range) {
  size_t index = static_cast<size_t>(symbol->value);
  SAKER_CHECK(index == symbols_.size(), "symbols are declared in order");
  SAKER_CHECK(!range.empty(), "a symbol without possible values");
  symbols_.push_back({symbol, range, nullptr, nullptr});
  if (range != symbol->range) touched_ |= symbol->symbols;
}

const Knowledge::SymbolFacts& Knowledge::factsOf(const Node* symbol) const {
  bool isHidden = symbol->value >= kFirstHidden;
  const std::vector<SymbolFacts>& all = isHidden ? hidden_ : symbols_;
  size_t index = static_cast<size_t>(isHidden ? symbol->value - kFirstHidden : symbol->value);
  // A rollback takes symbols back; the program may still hold sizes with them.
  if (index >= all.size() || all[index].symbol != symbol) throw Undecided("a size that was taken back");
  return all[index];
}

Knowledge::SymbolFacts& Knowledge::factsOf(const Node* symbol) {
  return const_cast<SymbolFacts&>(static_cast<const Knowledge*>(this)->factsOf(symbol));
}

Range Knowledge::rangeOf(const Node* value) const {
  if ((value->symbols & touched_) == 0 || !value->isInt()) return value->range;
  if (value->kind == Kind::Symbol) {
    const SymbolFacts& facts = factsOf(value);
    return facts.solved ? intersect(facts.range, rangeOf(facts.solved)) : facts.range;
  }
  return intersect(value->range, boundsOf(value->kind, value->value, value->args(), this));
}

Range Knowledge::reducedRange(const Node* value) const {
  Range range = rangeOf(value);
  if ((value->symbols & touched_) == 0) return range;
  try {
    return intersect(range, rangeOf(reduce(value)));
  } catch (const std::runtime_error&) {  // too large, or undefined under the facts
    return range;
  }
}

const Node* Knowledge::map(const Node* node, Mapping mapping, Builder& builder) const {
  if ((node->symbols & touched_) == 0) return node;
  if (node->isSymbol()) {
    const SymbolFacts& facts = factsOf(node);
    if (const Node* value = mapping == Mapping::Solved ? facts.solved : facts.visible) return value;
    if (node->kind != Kind::Symbol) return node;
    Range range = rangeOf(node);
    return range.isExact() ? builder.constant(range.low) : node;
  }
  SmallVec<const Node*, 8> operands;
  for (const Node* operand : node->args()) operands.push_back(map(operand, mapping, builder));
  // Also where no operand changed: narrower ranges may decide more.
  return builder.rebuild(node, operands);
}

const Node* Knowledge::reduce(const Node* node) const {
  if ((node->symbols & touched_) == 0) return node;
  Builder builder(*node->context, this);
  return map(node, Mapping::Solved, builder);
}

const Node* Knowledge::simplify(const Node* value) const {
  if ((value->symbols & touched_) == 0) return value;
  try {
    Builder builder(*value->context, this);
    builder.askRemainders();
    // What a symbol equals was written down when less was known: it is simplified in its turn.
    for (int round = 0; round < kMaxRounds; ++round) {
      const Node* simpler = map(value, Mapping::Visible, builder);
      if (simpler == value) break;
      value = simpler;
    }
    return value;
  } catch (const std::runtime_error&) {  // too large, or undefined under the facts
    return value;
  }
}

std::optional<int64_t> Knowledge::remainder(const Node* value, int64_t divisor) const {
  if ((value->symbols & touched_) == 0) return std::nullopt;
  Builder builder(*value->context, this);
  const Node* rest = builder.mod(map(value, Mapping::Solved, builder), builder.constant(divisor));
  return rest->kind == Kind::Const ? std::optional(rest->value) : std::nullopt;
}

std::optional<bool> Knowledge::prove(const Node* condition) const {
  if (condition->kind == Kind::BoolConst) return condition->value != 0;
  if ((condition->symbols & touched_) == 0 && conditions_.empty() && !Implication::hasRules(condition)) {
    return std::nullopt;  // what the declared ranges say was applied when it was made
  }
  Answer& recent = memo_[condition->id % memo_.size()];
  if (recent.condition == condition) return recent.answer;
  std::optional<bool> answer;
  try {
    const Node* reduced = reduce(condition);
    answer = proveReduced(reduced);
    if (!answer && reduced != condition) {
      // Rules for one sign may see more under the facts: the opposite is reduced on its own.
      answer = proveReduced(reduce(condition->context->logicalNot(condition)));
      if (answer) answer = !*answer;
    }
  } catch (const std::runtime_error&) {  // too large, or undefined under the facts
  }
  if (!answer) answer = wasAssumed(condition);
  recent = {condition, answer};
  return answer;
}

// What is kept of a condition does not always lead back to it.
std::optional<bool> Knowledge::wasAssumed(const Node* condition) const {
  auto isAssumed = [&](const Node* asked) {
    return std::find(assumed_.begin(), assumed_.end(), asked) != assumed_.end();
  };
  if (isAssumed(condition)) return true;
  try {
    if (!assumed_.empty() && isAssumed(condition->context->logicalNot(condition))) return false;
  } catch (const std::runtime_error&) {  // an opposite that cannot be written was not assumed
  }
  return std::nullopt;
}

std::optional<bool> Knowledge::proveReduced(const Node* condition) const {
  if (condition->kind == Kind::BoolConst) return condition->value != 0;
  if (condition->kind == Kind::And || condition->kind == Kind::Or) {
    bool isAnd = condition->kind == Kind::And;
    bool all = true;
    for (const Node* operand : condition->args()) {
      std::optional<bool> known = proveReduced(operand);
      if (known && *known != isAnd) return known;
      all &= known.has_value();
    }
    if (all) return isAnd;
  }
  if (!conditions_.empty()) {
    const Node* opposite = condition->context->logicalNot(condition);
    for (const Node* known : conditions_) {
      if (known == condition) return true;
      if (known == opposite) return false;
    }
  }
  bool isInteger = condition->count == 1 && condition->operands[0]->isInt();
  return isInteger ? Implication(*this, condition).answer() : std::nullopt;
}

}  // namespace saker::sym
