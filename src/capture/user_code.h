// Looking at autograd's graph before it is run ahead of time.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <vector>

namespace saker::tracing {

// Would a backward from here run code of the user: hooks, Functions? Run ahead of time, it would run once too often.
bool reachesUserCode(const std::vector<torch::autograd::Edge>& roots);

// The same, but hooks on leaves that were there before are not counted: whoever runs a backward from results that were
// made again runs those anyway.
bool reachesRecordedUserCode(const std::vector<torch::autograd::Edge>& roots);

// A node between a tensor subclass and the tensors that it is made of (src/host/subclass_nodes).
class SubclassNode : public torch::autograd::Node {
 public:
  ~SubclassNode() override;
};

// Does it pass such nodes?
bool reachesSubclasses(const std::vector<torch::autograd::Edge>& roots);

}  // namespace saker::tracing
