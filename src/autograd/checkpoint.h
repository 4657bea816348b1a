// What a program asks of the cut (torch.utils.checkpoint): these nodes are to be computed again in the backward, those
// are to be saved. It stands in the location of a node, as its outermost caller, so that it survives every pass and can
// be written in text: `loc("model.py":3 in "f" from "<checkpoint>":1 in "recompute")`.
#pragma once

#include <string_view>

#include "autograd/joint_graph.h"
#include "autograd/recompute.h"

namespace saker::autograd {

inline constexpr std::string_view kCheckpointFile = "<checkpoint>";

struct Checkpoint {
  enum class Kind : uint8_t {
    None,
    Recompute,
    Redraw,  // recompute, and draw other random numbers
    Save,
  };
  Kind kind = Kind::None;
  int region = 0;

  bool recomputes() const { return kind == Kind::Recompute || kind == Kind::Redraw; }
};

Checkpoint checkpointOf(const ir::Node& node);
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
