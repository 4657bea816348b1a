// What a program asks of the cut (torch.utils.checkpoint): these nodes are to be computed again in the backward, those
// are to be saved. It stands in the attributes of a node (`[recompute: 1]` in text).
#pragma once

#include "autograd/joint_graph.h"
#include "autograd/recompute.h"

namespace saker::autograd {

bool hasCheckpoints(const ir::Graph& graph);

// Random operators that are computed again must draw the same again: the state of the generator is read right before
// each. Changes the graph.
void readStates(ir::Graph& graph);
// What readStates() put in front of this node, or nullptr.
ir::Value* stateBefore(const ir::Node& node);
// Put there by readStates() and read by nobody.
bool isUnreadState(const ir::Node& node);

// By place: nodes whose results leave the region they are in. They are not computed again, or a chain of regions would
// be from its start.
std::vector<bool> findLeaving(const JointGraph& joint);

// By value id: results that may not be saved because they are to be computed again.
std::vector<bool> findUnsavable(const JointGraph& joint, const std::vector<Ban>& bans);

}  // namespace saker::autograd
