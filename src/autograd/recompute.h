// What may be computed again in the backward, what it costs to save instead, and how long it takes.
#pragma once

#include <vector>

#include "autograd/joint_graph.h"

namespace saker::autograd {

// Why a node of the forward is not computed again. Each kind can be lifted when the ones in front of it are.
enum class Ban : uint8_t {
  None,
  Soft,   // it could be, but would not be faster than reading what was saved
  Heavy,  // takes long
  Never,  // would not give the same again, or is done only once
};

// By place in the joint graph.
std::vector<Ban> findBans(const JointGraph& joint);

// What saving a value counts in the choice, by value id: its bytes, more the farther it is from the backward, since
// what is near is needed sooner and kept shorter, and double where nothing else makes it be written to memory. Primals
// are free; what may not be saved costs less than nothing.
std::vector<double> savingCosts(const JointGraph& joint);

// An estimate of the time a node takes, in bytes moved.
double timeOf(const JointGraph& joint, size_t node);

}  // namespace saker::autograd
