// Entries to a node of autograd's graph that has several results. Hooks on a tensor belong to the node that gives it,
// and are called, with None, where a backward reaches another result of that node alone. A result that eager mode
// computes by an operator of its own gets a node of its own, an entry, which passes its gradient on.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include "aten/torch_version/autograd_node.h"

namespace saker::aten {

class EntryNode : public torch::autograd::Node {
 public:
  explicit EntryNode(NodePtr target) : target_(std::move(target)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  std::string name() const override { return num_outputs() ? next_edge(0).function->name() : Node::name(); }

  // Makes a tensor the next result of the target, by way of this node, which is `self`. Gives its number there, which
  // link() is told, in the same order, once the target's own edges are known: autograd counts how deep a node lies.
  static uint32_t add(const NodePtr& self, const at::Tensor& result);
  void link(uint32_t result) {
    add_next_edge({target(), result});
    target_.reset();
  }

 private:
  // Once there is an edge, that alone keeps it: edges may be led elsewhere.
  const NodePtr& target() const { return target_ ? target_ : next_edge(0).function; }

  NodePtr target_;
};

}  // namespace saker::aten
