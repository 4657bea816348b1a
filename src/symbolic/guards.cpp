// Decisions by example values, and the guards they leave.
#include <algorithm>

#include "symbolic/context.h"

namespace saker::sym {
namespace {

// Up to this many guards all others together are asked whether they imply an older one; with more, only the new one.
constexpr size_t kMaxJointly = 24;

// Does a condition have a symbol that a rollback took back? Another one may have its index by now.
bool wasTakenBack(const Node* node, const Context& context) {
  if (node->isSymbol()) {
    size_t index = static_cast<size_t>(node->value);
    return index >= context.symbols().size() || context.symbols()[index].node != node;
  }
  return std::any_of(node->args().begin(), node->args().end(),
                     [&](const Node* operand) { return wasTakenBack(operand, context); });
}

}  // namespace

bool Context::decide(const Node* condition, std::string_view reason) {
  if (std::optional<bool> known = facts_.prove(condition)) return *known;
  if (wasTakenBack(condition, *this)) throw Undecided("cannot decide about a size that was taken back");
  std::optional<bool> answer = evaluateBool(condition, exampleAssignment(*this));
  if (!answer) {
    throw Undecided("cannot decide " + toString(condition) + ": it depends on a value that is not known yet");
  }
  const Node* holds = *answer ? condition : logicalNot(condition);
  if (!facts_.assume(holds)) {
    throw Undecided("cannot decide " + toString(condition) + ": the example values contradict what was assumed");
  }
  addGuard(holds, reason);
  return *answer;
}

int64_t Context::guardInt(const Node* value, std::string_view reason) {
  Range range = facts_.rangeOf(value);
  if (range.isExact()) return range.low;
  std::optional<int64_t> number = evaluateInt(value, exampleAssignment(*this));
  if (!number) throw Undecided("no number is known for " + toString(value));
  if (!decide(eq(value, intConst(*number)), reason)) {
    throw Undecided("no number is known for " + toString(value) + ": the example values contradict what was assumed");
  }
  return *number;
}

// Lists a guard that does not follow from the older ones, and drops those that follow now.
void Context::addGuard(const Node* condition, std::string_view reason) {
  auto next = std::make_shared<Guards>(*guards_);
  auto related = [&](const Guard& guard) { return (guard.condition->symbols & condition->symbols) != 0; };
  if (std::any_of(next->listed.begin(), next->listed.end(), related)) {
    Facts assumed;  // what holds without any guard
    for (const Symbol& symbol : symbols_) assumed.setRange(symbol.node, symbol.node->range);
    for (const Node* fact : facts_.assumed()) {
      bool isGuard = fact == condition || std::find(next->all.begin(), next->all.end(), fact) != next->all.end();
      if (!isGuard) assumed.assume(fact);
    }
    Facts withNew = assumed;
    withNew.assume(condition);
    for (size_t i = 0; i < next->listed.size();) {
      const Guard& old = next->listed[i];
      bool implied = related(old) && withNew.prove(old.condition) == true;
      if (related(old) && !implied && next->listed.size() <= kMaxJointly) {
        Facts others = withNew;
        for (const Guard& other : next->listed) {
          if (&other != &old) others.assume(other.condition);
        }
        implied = others.prove(old.condition) == true;
      }
      if (implied) {
        next->listed.erase(next->listed.begin() + static_cast<ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }
  next->listed.push_back({condition, std::string(reason)});
  next->all.push_back(condition);
  guards_ = std::move(next);
}

std::string Context::guardsText() const {
  std::string text;
  for (const Guard& guard : guards()) text += toString(guard.condition) + "\n";
  return text;
}

}  // namespace saker::sym
