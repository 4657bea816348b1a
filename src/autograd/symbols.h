// Which symbols a graph reads that no parameter of it gives a value.
#pragma once

#include <unordered_set>
#include <vector>

#include "ir/graph.h"

namespace saker::autograd {

class SymbolUse {
 public:
  explicit SymbolUse(const sym::Context& context)
      : context_(context), read_(context.symbols().size()), bound_(context.symbols().size()) {}

  // The type of a parameter: a size that is a plain symbol gives it a value, and so does a number that is one.
  void bind(const ir::Type* type);
  void read(const ir::Node& node);
  void read(const ir::Arg& arg);
  // In the order of their declaration.
  std::vector<const sym::Node*> unbound() const;

 private:
  void bindPlain(const sym::Node* node);
  void bindNew(const ir::Node& node);
  void read(const ir::Type* type);
  void read(const sym::Node* expression);

  const sym::Context& context_;
  std::vector<bool> read_, bound_;        // by symbol index
  std::unordered_set<const void*> seen_;  // types and expressions
};

}  // namespace saker::autograd
