#include "ops/operator.h"
#include "passes/pass.h"

namespace saker::passes {
namespace {

bool isDead(const ir::Node& node) {
  const ops::Operator* op = ops::of(&node);
  return op && op->isRemovable() && !node.hasUsedResults();
}

// Backwards: a node comes after all its users, those in regions behind it included, so one walk finds everything.
void sweep(ir::Graph& graph, ir::Region* region) {
  for (ir::Node* node = region->last(); node;) {
    ir::Node* before = node->prev();
    if (isDead(*node)) {
      graph.erase(node);
    } else {
      std::span<ir::Region* const> bodies = node->regions();
      for (size_t i = bodies.size(); i-- > 0;) sweep(graph, bodies[i]);
    }
    node = before;
  }
}

}  // namespace

void eliminateDeadCode(ir::Graph& graph) { sweep(graph, graph.top()); }

}  // namespace saker::passes
