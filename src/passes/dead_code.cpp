// What an unused operator does may still be seen: where it may raise because of its data (an index out of range), eager
// mode raises, so it stays. "dce-errors" drops these too, for a caller who knows that nothing raises, or does not care.
#include "ops/effects.h"
#include "passes/bodies.h"
#include "passes/pass.h"

namespace saker::passes {
namespace {

enum class Errors : bool { Keep, Drop };

bool isDead(const ir::Node& node, Errors errors) {
  if (node.hasUsedResults() || node.isReturn()) return false;
  ops::Effects effects = ops::effectsOf(node);
  return effects.removable() && (errors == Errors::Drop || !effects.has(ops::kFailsOnData));
}

// Backwards: a node comes after all its users, those in regions behind it included, so one walk finds everything.
void sweep(ir::Graph& graph, ir::Region* region, Errors errors) {
  for (ir::Node* node = region->last(); node;) {
    ir::Node* before = node->prev();
    if (isDead(*node, errors)) {
      graph.erase(node);
    } else {
      std::span<ir::Region* const> bodies = node->regions();
      for (size_t i = bodies.size(); i-- > 0;) sweep(graph, bodies[i], errors);
    }
    node = before;
  }
}

}  // namespace

void eliminateDeadCode(ir::Graph& graph) { sweep(graph, graph.top(), Errors::Keep); }

void eraseUnread(ir::Graph& graph, ir::Region* body) { sweep(graph, body, Errors::Keep); }

void eliminateDeadCodeAndErrors(ir::Graph& graph) { sweep(graph, graph.top(), Errors::Drop); }

}  // namespace saker::passes
