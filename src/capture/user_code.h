// Looking at autograd's graph before it is run ahead of time.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <optional>
#include <vector>

namespace saker::tracing {

// Would a backward from here run code of the user: hooks, Functions? Run ahead of time, it would run once too often.
bool reachesUserCode(const std::vector<torch::autograd::Edge>& roots);

// The same, but hooks on leaves that were there before are not counted: whoever runs a backward from results that were
// made again runs those anyway.
bool reachesRecordedUserCode(const std::vector<torch::autograd::Edge>& roots);

// The same of nodes from this sequence number on, and of hooks on leaves that stand for tensors.
bool reachesUserCode(const std::vector<torch::autograd::Edge>& roots, uint64_t first);

// While one lives on this thread, nodes may be noted that look as if they ran code of the user's and do not: they
// belong to Functions whose backward was written down when it ran (frontend/open_functions).
class OpenedNodes {
 public:
  OpenedNodes();
  ~OpenedNodes();
  OpenedNodes(const OpenedNodes&) = delete;
  OpenedNodes& operator=(const OpenedNodes&) = delete;

  // `saves`: a second backward is refused where the first one has freed what it kept.
  static void note(const torch::autograd::Node& node, bool saves);
  // Nothing: it is none of them.
  static std::optional<bool> saves(const torch::autograd::Node& node);
};

// Has a torch.autograd.Function been applied on this thread where autograd is on? The body of an operator in which that
// happened has derivatives of its own.
void noteApplied();
bool takeApplied();  // and forgets it

// A node between a tensor subclass and the tensors that it is made of (src/host/subclass_nodes).
class SubclassNode : public torch::autograd::Node {
 public:
  ~SubclassNode() override;
};

// Does it pass such nodes, or opened ones? Only the function itself knows what to do where autograd is to follow.
bool needFunction(const std::vector<torch::autograd::Edge>& roots);

}  // namespace saker::tracing
