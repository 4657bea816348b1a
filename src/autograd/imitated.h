// Factories such as zeros_like read no data of the tensor they imitate.
#pragma once

#include "autograd/joint_graph.h"

namespace saker::autograd {

// Outside of the forward they imitate a tangent or a primal of the same layout instead, where there is one, so that
// nothing is saved for its layout. Changes the graph: what was known of it has to be asked again.
void freeImitated(const JointGraph& joint);

}  // namespace saker::autograd
