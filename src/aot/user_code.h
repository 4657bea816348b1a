// Looking at autograd's graph before it is run ahead of time.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <vector>

namespace saker::aot {

// Would a backward from here run code of the user: hooks, Functions? Run ahead of time, it would run once too often.
bool reachesUserCode(const std::vector<torch::autograd::Edge>& roots);

// Does it pass Functions of ours, which are around tensor subclasses?
bool reachesSubclasses(const std::vector<torch::autograd::Edge>& roots);

}  // namespace saker::aot
