// The graph of one stage of a backward, and what values are computed from.
#pragma once

#include <memory>
#include <vector>

#include "aot/joint.h"

namespace saker::aot {

// Of a backward with so many saved values and gradients: what gives the gradients of a stage, then what the backward
// writes, which it does where there is one stage only. Parameters stay the same.
std::unique_ptr<ir::Graph> stageOf(const ir::Graph& backward, size_t saved, const Joint::Stage& stage,
                                   size_t gradients);

// By parameter: are these values of a graph computed from it?
std::vector<bool> parametersOf(const ir::Graph& graph, const std::vector<const ir::Value*>& values);

}  // namespace saker::aot
