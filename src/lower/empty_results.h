// Results without elements (the statistics that a batch norm does not take in evaluation) are not computed: they become
// memory of their own, so that the operator's other results can be elements of a kernel.
#pragma once

#include "ir/graph.h"

namespace saker::lower {

void takeEmptyResultsApart(ir::Graph& graph);

}  // namespace saker::lower
