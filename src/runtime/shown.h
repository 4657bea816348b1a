// Which operators of a recording the caller can see the work of beside values: views and version counters.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace saker::runtime {

// Sets the attribute `shown` of each node that writes to memory that a result of the graph lies in, or makes a view of
// such memory that leads to a result or to such a write. Run below autograd, a view would have no base and a write
// would not be counted. True if there is such a node, and autograd was on at some node.
bool markShown(ir::Graph& graph);

// By parameter of the graph: is it read through an operator (as_strided) that counts from the start of its memory?
std::vector<bool> placedParameters(const ir::Graph& graph);

// By parameter of the graph: does a node write to memory that it lies in?
std::vector<bool> writtenParameters(const ir::Graph& graph);

}  // namespace saker::runtime
