// Expressions compiled to one straight list of steps over numbered cells, for whoever computes the same ones again and
// again: the sizes of a graph in every run, the guards in every call. A part that several have is computed once in a
// run, when it is first needed: some symbols get their values only while a graph runs.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "symbolic/expr.h"

namespace saker::sym {

// A value, or none: a symbol that has none yet, a division by zero, an overflow.
struct Cell {
  __int128 whole = 0;  // integers, booleans as 0 and 1: sums may pass through larger numbers than 64 bits
  double number = 0;
  bool known = false;

  std::optional<int64_t> integer() const {
    if (!known || whole < Range::kNegInf || whole > Range::kInf) return std::nullopt;
    return static_cast<int64_t>(whole);
  }
  std::optional<bool> boolean() const { return known ? std::optional(whole != 0) : std::nullopt; }
  std::optional<double> real() const { return known ? std::optional(number) : std::nullopt; }
  void set(int64_t value) {
    whole = value;
    known = true;
  }
  void setReal(double value) {
    number = value;
    known = true;
  }
};

class Flat {
 public:
  // The cell that holds the value of an expression.
  uint32_t add(const Node* expression);
  // The cell of one that was added.
  std::optional<uint32_t> find(const Node* expression) const;
  // A cell that no step fills.
  uint32_t addCell();

  size_t cellCount() const { return cells_; }
  // The value of a cell: computed now unless it is known.
  const Cell& value(std::vector<Cell>& cells, uint32_t cell) const {
    if (!cells[cell].known) compute(cells, cell);
    return cells[cell];
  }
  // The cells whose values depend on one of these, in order, themselves included.
  std::vector<uint32_t> dependents(const std::vector<uint32_t>& on) const;

 private:
  struct Step {
    const Node* node;
    uint32_t out;
    uint32_t first;  // of its operands' cells
  };
  void compute(std::vector<Cell>& cells, uint32_t cell) const;
  static Cell apply(const Node& node, const uint32_t* operands, const std::vector<Cell>& cells);

  std::vector<Step> steps_;       // what an expression is made of comes before it
  std::vector<uint32_t> stepOf_;  // by cell, or none
  std::vector<uint32_t> operands_;
  std::unordered_map<const Node*, uint32_t> known_;
  uint32_t cells_ = 0;
};

}  // namespace saker::sym
