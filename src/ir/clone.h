// Copies of graphs in the same context: passes change the copy, the original stays.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace saker::ir {

std::unique_ptr<Graph> clone(const Graph& graph);
// The same with the parameters in another order: `order` has the places they had.
std::unique_ptr<Graph> clone(const Graph& graph, std::span<const size_t> order);

// A copy with some nodes alone, in their order, which use nothing that others of its top region make. It returns what
// the graph returns at these places.
std::unique_ptr<Graph> clone(const Graph& graph, std::span<const Node* const> nodes, std::span<const size_t> returned);

// Copies the nodes of a region of `from`, with its `return`, behind those of a region of `to`. `values`, by number of
// the original, says what stands for its parameters and for values from outside of it.
void copyNodes(const Graph& from, const Region& body, Graph& to, Region* into, std::vector<Value*> values);

}  // namespace saker::ir
