// Puts a body in the place of the node it belongs to, for operators that run one body once: a call, a branch whose
// condition is known.
#pragma once

#include <span>

#include "ir/graph.h"

namespace saker::passes {

// Values or constants take the place of the body's parameters, and what the body returns that of the node's results.
// The node and its other bodies are erased.
void inlineRegion(ir::Graph& graph, ir::Node* node, ir::Region* body, std::span<const ir::Arg> arguments);

// A value or a constant in the place of a value, wherever it is used.
void replaceUses(ir::Graph& graph, ir::Value* value, const ir::Arg& by);

}  // namespace saker::passes
