// What is known about symbols, and what follows from it. Facts only ever grow; a fact that contradicts what is known
// is refused and changes nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbolic/expr.h"
#include "symbolic/range.h"

namespace saker::sym {

class Facts {
 public:
  // Declares what a new symbol may be.
  void setRange(const Node* symbol, Range range);

  // Takes `condition` for granted. False if it is known not to hold (nothing is changed then).
  bool assume(const Node* condition);

  // 1: follows from the facts; 0: its opposite does; nothing: neither is seen.
  std::optional<bool> prove(const Node* condition) const;

  // Bounds of an integer expression.
  Range rangeOf(const Node* value) const;

  // The expression with known equalities applied, in canonical form.
  const Node* simplify(const Node* value) const;

  // Conditions assumed, in order (for printing).
  const std::vector<const Node*>& assumed() const { return assumed_; }

 private:
  std::vector<Range> ranges_;            // by symbol index
  std::vector<const Node*> equal_;       // by symbol index: what it was found equal to, or nullptr
  std::vector<const Node*> conditions_;  // inequalities and others, simplified
  std::vector<const Node*> assumed_;
};

}  // namespace saker::sym
