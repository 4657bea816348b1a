// Factories such as zeros_like read no data of the tensor they imitate.
#pragma once

#include "autograd/joint_graph.h"

namespace saker::autograd {

bool isFactory(const ir::Node& node);
// Is there an operand of this node that is the value, and whose data it reads?
bool readsData(const ir::Node& node, const ir::Value* value);

// Outside of the forward they imitate a tangent or a primal of the same layout instead, where there is one, so that
// nothing is saved for its layout. Changes the graph: what was known of it has to be asked again.
void freeImitated(const JointGraph& joint);

}  // namespace saker::autograd
