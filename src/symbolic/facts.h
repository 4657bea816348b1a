// What is known about symbols, and what follows from it. Facts only ever grow; a fact that contradicts what is known
// is refused and changes nothing. A copy is one pointer: copies share what they have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "symbolic/expr.h"
#include "symbolic/range.h"

namespace saker::sym {

class Knowledge;

class Facts {
 public:
  Facts();

  // Declares a new symbol and what it may be.
  void setRange(const Node* symbol, Range range);

  // Takes `condition` for granted. False if it is known not to hold (nothing is changed then).
  bool assume(const Node* condition);

  // 1: follows from the facts; 0: its opposite does; nothing: neither is seen.
  std::optional<bool> prove(const Node* condition) const;

  // Bounds of an integer expression.
  Range rangeOf(const Node* value) const;

  // The expression with known equalities applied, in canonical form.
  const Node* simplify(const Node* value) const;

  // Conditions assumed, in order, without those that were known before (for printing).
  const std::vector<const Node*>& assumed() const;

 private:
  std::shared_ptr<Knowledge> knowledge_;
};

}  // namespace saker::sym
