// Which nodes a stage of the backward needs besides the one that computes. What a caller sees of autograd's graph is
// which results lead to which gradients (hooks run, or a gradient is taken before them, where a result leads to what is
// asked for), and the order in which results and gradients are reached. One node for all of a stage would lead from
// each result to each gradient: so results have entries, gradients leave by exits, and an entry leads to those exits
// alone that it leads to in eager mode.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "aot/joint.h"

namespace saker::aot {

struct Delivery {
  struct Exit {
    std::vector<size_t> gradients;  // of the stage
    std::vector<size_t> entries;    // that lead here
  };
  struct Place {
    bool isExit;
    size_t number;
  };
  std::vector<size_t> entryOf;  // by tangent of the stage
  size_t entries = 0;
  std::vector<Exit> exits;
  std::vector<Place> order;  // in which autograd is to run them
};

// As few exits as there can be, behind all entries: the stage is computed at once. Nothing: one node does.
std::optional<Delivery> deliverTogether(const Joint& joint, const Joint::Stage& stage);
// Gradients leave where eager mode has them: for hooks on leaves, which run then. The stage is computed as far as
// tangents have arrived.
Delivery deliverInTurn(const Joint& joint, const Joint::Stage& stage);

}  // namespace saker::aot
