// The graph of one stage of a backward.
#pragma once

#include <memory>

#include "aot/joint.h"

namespace saker::aot {

// Of a backward with so many saved values and gradients: what gives the gradients of a stage, then what the backward
// writes, which it does where there is one stage only. Parameters stay the same.
std::unique_ptr<ir::Graph> stageOf(const ir::Graph& backward, size_t saved, const Joint::Stage& stage,
                                   size_t gradients);

}  // namespace saker::aot
