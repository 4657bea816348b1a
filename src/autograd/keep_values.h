// Operators with bodies in a joint graph. The bodies of a derivative begin with what those of the forward computed:
// here the forward gives what is read of it, as further results or in the history of a loop, and nothing is computed
// twice.
#pragma once

#include "ir/graph.h"

namespace saker::autograd {

// Changes the graph. What nothing reads any more is left in it.
void keepValues(ir::Graph& joint);

}  // namespace saker::autograd
