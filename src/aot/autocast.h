// Would autocast change what a graph computes? Graphs run without it; eager mode's backward runs under that of the
// thread that asks for gradients.
#pragma once

#include "ir/graph.h"

namespace saker::aot {

bool autocastMatters(const ir::Graph& graph);

// Is it on for this thread, for any kind of device?
bool autocastIsOn();

}  // namespace saker::aot
