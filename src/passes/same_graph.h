// Do two graphs of one context compute the same, node by node?
#pragma once

#include "ir/graph.h"

namespace saker::passes {

// Operators, arguments, types, attributes, bodies and the lines of the program that they come from. Not where one has
// an object that is no value: it belongs to the graph's owner.
bool sameGraph(const ir::Graph& a, const ir::Graph& b);
// Equal for graphs that are the same.
uint64_t hashGraph(const ir::Graph& graph);

}  // namespace saker::passes
