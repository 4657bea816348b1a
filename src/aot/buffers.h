// What eager mode's nodes keep for their backward, and which backwards free it.
#pragma once

#include <vector>

#include "aot/joint.h"
#include "aot/paths.h"

namespace saker::aot {

// Lets nodes go of what they keep, to see which have something: the graph cannot be run any more.
void findBuffers(Joint& joint, const Paths& paths, const std::vector<torch::autograd::Edge>& roots,
                 const std::vector<torch::autograd::Edge>& ends);

}  // namespace saker::aot
