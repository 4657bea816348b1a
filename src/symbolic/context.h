// A Context owns expressions, the symbols in them, what is known about the symbols (facts), and the guards: the
// answers that were taken from example values and must be checked again before the result may be reused.
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "support/arena.h"
#include "support/intern_table.h"
#include "symbolic/expr.h"
#include "symbolic/facts.h"
#include "symbolic/int.h"
#include "symbolic/range.h"

namespace saker::sym {

struct Symbol {
  std::string name;
  const Node* node = nullptr;  // its range is the declared one
  // What the symbol is in the run that is being traced; none for a number that no one has seen yet.
  std::optional<int64_t> example;
  std::optional<double> floatExample;
};

struct Guard {
  const Node* condition;
  std::string reason;  // where it was asked
};

class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Symbols. A size that may change is at least 2: 0 and 1 are special in PyTorch and get graphs of their own.
  Int symbol(std::string_view name, Range range = Range::size(), std::optional<int64_t> example = std::nullopt);
  Bool boolSymbol(std::string_view name, std::optional<bool> example = std::nullopt);
  Float floatSymbol(std::string_view name, std::optional<double> example = std::nullopt);
  const Symbol* find(std::string_view name) const;
  const Symbol& symbolOf(const Node* node) const { return symbols_[static_cast<size_t>(node->value)]; }
  const std::vector<Symbol>& symbols() const { return symbols_; }

  // Canonical construction.
  const Node* intConst(int64_t value);
  const Node* boolConst(bool value);
  const Node* floatConst(double value);
  const Node* add(const Node* a, const Node* b);
  const Node* sub(const Node* a, const Node* b);
  const Node* mul(const Node* a, const Node* b);
  const Node* neg(const Node* a);
  const Node* floorDiv(const Node* a, const Node* b);
  const Node* mod(const Node* a, const Node* b);
  const Node* minMax(Kind kind, const Node* a, const Node* b);
  const Node* eq(const Node* a, const Node* b);
  const Node* ne(const Node* a, const Node* b);
  const Node* lt(const Node* a, const Node* b);
  const Node* le(const Node* a, const Node* b);
  const Node* logical(Kind kind, const Node* a, const Node* b);
  const Node* logicalNot(const Node* a);
  // Of many at once, which is the same as one by one but cheaper.
  const Node* sum(std::span<const Node* const> terms);
  const Node* product(std::span<const Node* const> factors);
  const Node* minMax(Kind kind, std::span<const Node* const> operands);
  const Node* logical(Kind kind, std::span<const Node* const> operands);
  const Node* floatOp(FloatOp op, std::span<const Node* const> operands);
  const Node* floatCompare(Kind kind, const Node* a, const Node* b);  // Eq, Le or Lt
  const Node* toInt(FloatOp rounding, const Node* a);

  // Facts.
  Facts& facts() { return facts_; }
  const Facts& facts() const { return facts_; }

  // Decides a condition: by facts, else by example values, recording a guard. Throws Undecided.
  bool decide(const Node* condition, std::string_view reason = {});
  int64_t guardInt(const Node* value, std::string_view reason = {});
  // Those that do not follow from the others.
  const std::vector<Guard>& guards() const { return guards_->listed; }
  std::string guardsText() const;  // one condition a line

  // Undo for symbols, facts and guards made since (expressions stay: they are pure). Cheap: what is not changed
  // afterwards is shared.
  struct Guards {
    std::vector<Guard> listed;
    std::vector<const Node*> all;  // also those that others came to imply
  };
  struct Checkpoint {
    size_t symbols;
    std::shared_ptr<const Guards> guards;
    Facts facts;
  };
  Checkpoint checkpoint() const { return {symbols_.size(), guards_, facts_}; }
  void rollback(const Checkpoint& checkpoint);

  size_t nodeCount() const { return nodes_.size(); }

 private:
  friend class Builder;
  friend class Knowledge;
  const Node* intern(Kind kind, uint64_t value, std::span<const Node* const> operands);
  const Node* make(Kind kind, uint64_t value, uint64_t hash, std::span<const Node* const> operands, Range range);
  const Node* newSymbol(Kind kind, std::string_view name, Range range);
  const Node* hiddenSymbol(int64_t index, Range range);  // for Knowledge
  void addGuard(const Node* condition, std::string_view reason);

  Arena arena_;
  Arena scratch_;  // monomials under construction
  InternTable<Node> nodes_;
  uint32_t made_ = 0;
  const Node* true_;
  const Node* false_;
  std::vector<Symbol> symbols_;
  std::unordered_map<std::string_view, size_t> byName_;  // keys live in the arena
  Facts facts_;
  std::shared_ptr<const Guards> guards_ = std::make_shared<Guards>();
};

// What a symbol may be called: an identifier that is no word of the language of expressions.
bool isSymbolName(std::string_view name);

// The value of an expression under an assignment of its symbols; nothing where it is undefined (a zero divisor, an
// overflow, a symbol without a value).
struct Assignment {
  std::vector<std::optional<int64_t>> ints;  // by symbol index; booleans as 0 and 1
  std::vector<std::optional<double>> floats;
};
Assignment exampleAssignment(const Context& context);
std::optional<int64_t> evaluateInt(const Node* node, const Assignment& values);
std::optional<bool> evaluateBool(const Node* node, const Assignment& values);
std::optional<double> evaluateFloat(const Node* node, const Assignment& values);

// Rebuilds an expression with some symbols replaced (canonical again).
const Node* substitute(const Node* node, const std::vector<const Node*>& bySymbolIndex);

}  // namespace saker::sym
