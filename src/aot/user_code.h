// Looking at autograd's graph before it is run ahead of time.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <vector>

namespace saker::aot {

// Would a backward from here run code of the user: hooks, Functions? Run ahead of time, it would run once too often.
bool reachesUserCode(const std::vector<torch::autograd::Edge>& roots);

// By root, by wanted edge: does one lead to the other? Ways do not go through what is wanted.
std::vector<std::vector<bool>> reachability(const std::vector<torch::autograd::Edge>& roots,
                                            const std::vector<torch::autograd::Edge>& wanted);

}  // namespace saker::aot
