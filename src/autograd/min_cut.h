// Chooses what is saved as a minimum cut between what the forward computes and what the backward reads.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "autograd/exposure.h"
#include "autograd/joint_graph.h"

namespace saker::autograd {

struct Choice {
  std::vector<ir::Value*> saved;
  // Values of which a copy is saved, and who reads that in the place of the value.
  struct Copied {
    ir::Value* value;
    std::vector<size_t> readers;  // places; nodes().size() stands for the gradients
  };
  std::vector<Copied> copied;
};

uint64_t bytesOf(const JointGraph& joint, const Choice& choice);

// `isBanned` by place: nodes of the forward that are not computed again. Where everything that would have to be saved
// is something that cannot be, the reason.
std::variant<Choice, std::string> minCut(const JointGraph& joint, const Exposure& exposure,
                                         const std::vector<bool>& isBanned, const std::vector<double>& savingCosts);

// Computes again what the program asks for, and nothing else.
std::variant<Choice, std::string> minCutAsAsked(const JointGraph& joint, const Exposure& exposure);

// At most this share (0 to 1) of the bytes between saving as little as possible and what is fastest.
std::variant<Choice, std::string> minCutWithin(const JointGraph& joint, const Exposure& exposure, double memoryBudget);

}  // namespace saker::autograd
