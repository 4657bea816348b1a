// Names for the inputs of a graph, such as "encoder.layer.0.weight": what their text shows in place of a number.
#pragma once

#include <span>
#include <string>

#include "ir/graph.h"

namespace saker::ir {

// Names the parameters of the top region, in order; an empty text leaves the name that a parameter has. A name that
// another value has already is made different by a number behind it.
void nameParameters(Graph& graph, std::span<const std::string> names);

}  // namespace saker::ir
