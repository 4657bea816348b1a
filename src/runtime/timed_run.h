// How long each operator of a captured program takes: the recorded operators run one by one, below autograd, and the
// clock is read around each.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "runtime/program.h"

namespace saker::runtime {

struct NodeTime {
  const ir::Node* node;
  double seconds;  // the shortest of all runs; in one run of a body in a loop, the sum
};

// May it run again without anybody seeing that it did? Nothing from outside is written, and no code of the user runs.
// Random numbers are drawn: the generator is for the caller to put back.
bool changesNothing(const Program& program);

// Of a program that changes nothing. Throws std::runtime_error where it cannot be run so.
std::vector<NodeTime> timeNodes(const Program& program, std::span<const at::Tensor> arguments, size_t repeats);

}  // namespace saker::runtime
