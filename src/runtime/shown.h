// Which operators of a recording the caller can see the work of beside values: views and version counters.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace saker::runtime {

// By node: it writes to memory that a result of the graph lies in, or makes a view of such memory that leads to a
// result or to such a write. Run below autograd, a view would have no base and a write would not be counted. Empty:
// there is no such node.
std::vector<bool> shownNodes(const ir::Graph& graph);

// By parameter of the graph: does a node write to memory that it lies in?
std::vector<bool> writtenParameters(const ir::Graph& graph);

}  // namespace saker::runtime
