// Nodes that give symbols their values while a graph runs (`.item()`, `nonzero`): what computes with such a symbol
// comes behind them, although it reads none of their results.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"

namespace saker::lower {

class SymbolOrder {
 public:
  explicit SymbolOrder(std::span<ir::Node* const> nodes);
  // Those that the symbols in the arguments of `node` wait for.
  std::vector<const ir::Node*> before(const ir::Node* node) const;

 private:
  void find(const sym::Node* expression, const ir::Node* of, std::vector<const ir::Node*>& found) const;
  void find(const ir::Arg& arg, const ir::Node* of, std::vector<const ir::Node*>& found) const;

  std::unordered_map<const sym::Node*, const ir::Node*> givenBy_;
  std::unordered_map<const ir::Node*, size_t> position_;  // if there is one that gives a symbol
  uint64_t symbols_ = 0;                                  // a bit for each, as expressions have them
};

}  // namespace saker::lower
