// A copy of a graph in the same context: passes change the copy, the original stays.
#pragma once

#include <memory>

#include "ir/graph.h"

namespace saker::ir {

std::unique_ptr<Graph> clone(const Graph& graph);

}  // namespace saker::ir
