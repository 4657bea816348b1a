// From the recording of forward and backward to the functional joint graph.
#pragma once

#include "aot/joint.h"

namespace saker::aot {

// Makes `joint.program` of `joint.recording`, whose `return` has the results known so far, then gradients. Tangents are
// moved behind the other parameters, what is written to primals becomes results. Throws NotAheadOfTime.
void makeFunctional(Joint& joint, std::span<const ir::Value* const> tangents);

}  // namespace saker::aot
