#include "passes/inline.h"

#include "passes/rewrite.h"

namespace saker::passes {

void replaceUses(ir::Graph& graph, ir::Value* value, const ir::Arg& by) {
  if (by.isValue()) return graph.replaceAllUses(value, by.toValue());
  ArgRewriter rewriter(graph);
  while (const ir::Use* use = value->firstUse()) {
    rewriter.rewrite(use->user, [&](ir::Arg& arg) {
      if (!arg.isValue() || arg.toValue() != value) return false;
      arg = by;
      return true;
    });
  }
}

void inlineRegion(ir::Graph& graph, ir::Node* node, ir::Region* body, std::span<const ir::Arg> arguments) {
  ir::Node* end = body->terminator();
  SAKER_CHECK(body->owner() == node, "the body belongs to another node");
  SAKER_CHECK(end && end->args().size() == node->resultCount(), "a body returns what its node results in");
  SAKER_CHECK(arguments.size() == body->parameters().size(), "a body is given an argument for each parameter");
  // The arguments may stand in nodes that are rewritten.
  std::vector<ir::Arg> given(arguments.begin(), arguments.end());
  for (size_t i = 0; i < given.size(); ++i) replaceUses(graph, body->parameters()[i], given[i]);
  while (body->first() != end) graph.moveBefore(body->first(), node);
  for (size_t i = 0; i < node->resultCount(); ++i) replaceUses(graph, node->result(i), end->arg(i));
  graph.erase(node);
}

}  // namespace saker::passes
