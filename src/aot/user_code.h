// Looking at autograd's graph before it is run ahead of time.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <vector>

namespace saker::aot {

// Would a backward from here run hooks, or Functions written in C++? Run ahead of time, they would run once too often.
bool reachesUserCode(const std::vector<torch::autograd::Edge>& roots);

// Functions written in Python: what their backward asks of tensors can be recorded.
struct Functions {
  bool users = false;  // by the user
  bool ours = false;   // by us, around tensor subclasses
};
Functions reachedFunctions(const std::vector<torch::autograd::Edge>& roots);
// Is there one of the user's between a node and another one behind it?
bool passesFunction(const torch::autograd::Edge& from, const torch::autograd::Node* until);

}  // namespace saker::aot
