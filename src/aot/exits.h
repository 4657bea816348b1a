// Nodes around the one that computes a stage of the backward (delivery.h).
#pragma once

#include <typeinfo>

#include "aot/backward.h"
#include "aten/entry_node.h"

namespace saker::aot {

// The node of a result: where its gradient arrives, and what hooks on it belong to. Without exits it hands the
// gradient on; with them the stage keeps it until it computes.
class Entry final : public aten::EntryNode {
 public:
  using EntryNode::EntryNode;
  Entry(aten::NodePtr stage, size_t number) : EntryNode(nullptr), stage_(std::move(stage)), number_(number) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  std::string name() const override { return kBackwardName; }
  // From now on gradients go where these edges lead.
  void leadTo(torch::autograd::edge_list edges);

 private:
  aten::NodePtr stage_;  // of the backward, which owns no edges; none: the entry hands gradients on
  size_t number_ = 0;
  bool leads_ = false;
};

// Where some gradients of a stage leave it.
class Exit final : public torch::autograd::Node {
 public:
  Exit(aten::NodePtr stage, size_t number) : stage_(std::move(stage)), number_(number) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  void release_variables() override {}
  std::string name() const override { return kBackwardName; }

 private:
  aten::NodePtr stage_;
  size_t number_;
};

}  // namespace saker::aot
