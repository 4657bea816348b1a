// What Facts know, and how they conclude. Internal to src/symbolic.
//
// Equations are solved: a symbol that others determine is replaced by them everywhere (`solved`). x % 8 == 0 is solved
// too, as x == 8*h with a hidden symbol h, so that divisibility needs no rules of its own. All other conditions are
// kept reduced, that is in terms of the symbols that are left. Hidden symbols never leave this class.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "symbolic/expr.h"
#include "symbolic/poly.h"
#include "symbolic/range.h"

namespace saker::sym {

class Builder;

// Whether a symbol occurs in an expression.
bool mentions(const Node* node, const Node* symbol);

class Knowledge {
 public:
  Knowledge() = default;
  // The memo stays behind.
  Knowledge(const Knowledge& other);
  Knowledge& operator=(const Knowledge&) = delete;

  void declare(const Node* symbol, Range range);

  // Adds a condition. False for a contradiction; this object is then of no more use.
  bool add(const Node* condition);

  std::optional<bool> prove(const Node* condition) const;
  Range rangeOf(const Node* value) const;
  Range reducedRange(const Node* value) const;  // with equations applied first
  // With known equalities between symbols applied; no hidden symbols.
  const Node* simplify(const Node* value) const;
  // value % divisor, where it is known to be a number.
  std::optional<int64_t> remainder(const Node* value, int64_t divisor) const;

  const std::vector<const Node*>& assumed() const { return assumed_; }

 private:
  friend class Implication;

  struct SymbolFacts {
    const Node* symbol = nullptr;
    Range range;
    const Node* solved = nullptr;   // what it equals, reduced; nullptr if it is free
    const Node* visible = nullptr;  // the same without hidden symbols, where there is such an expression
  };
  enum class Mapping { Solved, Visible };

  const SymbolFacts& factsOf(const Node* symbol) const;
  SymbolFacts& factsOf(const Node* symbol);

  const Node* map(const Node* node, Mapping mapping, Builder& builder) const;
  const Node* reduce(const Node* node) const;
  std::optional<bool> proveReduced(const Node* condition) const;
  std::optional<bool> wasAssumed(const Node* condition) const;

  // assume.cpp: each returns false for a contradiction.
  bool process(const Node* condition);
  bool absorb(const Node* condition);
  bool absorbBound(const Node* condition, Builder& builder);
  bool absorbEquation(const Node* condition, Builder& builder);
  bool absorbDisequation(const Node* condition, Builder& builder);
  bool tighten(const Poly& d);
  bool tightenFactors(const Term& term, __int128 limit);
  bool narrow(const Node* symbol, Range range);
  void settle(const Node* symbol, const Node* value);
  void changed(const Node* symbol);

  // solve.cpp
  bool solve(Poly d, Builder& builder);  // false where it is left unsolved
  bool solveRemainder(const Poly& d, Builder& builder);
  bool eliminate(const Poly& d, const Term& term, Builder& builder);
  const Node* newHidden(Context& context, Range range);
  void solveVisible(const Node* condition);

  std::vector<SymbolFacts> symbols_;  // by index
  std::vector<SymbolFacts> hidden_;
  std::vector<const Node*> conditions_;
  std::vector<const Node*> assumed_;
  uint64_t touched_ = 0;  // bits of symbols about which more is known than was declared

  // Only while add() runs.
  std::vector<const Node*> pending_;
  int narrowings_ = 0;

  // Recent answers: the same questions are asked again and again. Cleared by add().
  struct Answer {
    const Node* condition = nullptr;
    std::optional<bool> answer;
  };
  mutable std::array<Answer, 128> memo_{};
};

// Index of the first hidden symbol.
inline constexpr int64_t kFirstHidden = int64_t{1} << 40;

}  // namespace saker::sym
