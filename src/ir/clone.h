// A copy of a graph in the same context: passes change the copy, the original stays.
#pragma once

#include <memory>
#include <span>

#include "ir/graph.h"

namespace saker::ir {

std::unique_ptr<Graph> clone(const Graph& graph);
// The same with the parameters in another order: `order` has the places they had.
std::unique_ptr<Graph> clone(const Graph& graph, std::span<const size_t> order);

}  // namespace saker::ir
