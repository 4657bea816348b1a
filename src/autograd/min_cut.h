// Chooses what is saved as a minimum cut between what the forward computes and what the backward reads.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "autograd/joint_graph.h"

namespace saker::autograd {

// `isBanned` by place: nodes of the forward that are not computed again. Where everything that would have to be saved
// is something that cannot be, the reason.
std::variant<std::vector<ir::Value*>, std::string> minCut(const JointGraph& joint, const std::vector<bool>& isBanned,
                                                          const std::vector<double>& savingCosts);

// Computes again what the program asks for, and nothing else.
std::variant<std::vector<ir::Value*>, std::string> minCutAsAsked(const JointGraph& joint);

// At most this share (0 to 1) of the bytes between saving as little as possible and what is fastest.
std::variant<std::vector<ir::Value*>, std::string> minCutWithin(const JointGraph& joint, double memoryBudget);

}  // namespace saker::autograd
