// The operands of a node and of the nodes in its bodies.
#pragma once

#include "ir/graph.h"

namespace saker::ir {

// F: void(Value*).
template <typename F>
void eachOperand(const Node& node, F&& f) {
  for (const Use& use : node.operands()) f(use.value);
  for (const Region* body : node.regions()) {
    for (const Node* inner = body->first(); inner; inner = inner->next()) eachOperand(*inner, f);
  }
}

}  // namespace saker::ir
