// Operators on lists of tensors (_foreach_add_) become those of single tensors, where a kernel may then take them
// together with others: on the CPU eager mode does to each item what the operator of one does.
#pragma once

#include "ir/graph.h"

namespace saker::lower {

void splitLists(ir::Graph& graph);

}  // namespace saker::lower
