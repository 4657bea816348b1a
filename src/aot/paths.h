// Which tangents lead through a node of autograd's graph, and to which gradients.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <unordered_map>
#include <vector>

namespace saker::aot {

class Paths {
 public:
  // Ways do not go through what is wanted.
  Paths(const std::vector<torch::autograd::Edge>& roots, const std::vector<torch::autograd::Edge>& wanted);

  // By root: does it lead here? By wanted edge: is it reached from here?
  std::vector<bool> tangents(const torch::autograd::Node* node) const;
  std::vector<bool> gradients(const torch::autograd::Node* node) const;
  // All nodes on the ways, each behind those it leads to.
  const std::vector<torch::autograd::Node*>& nodes() const { return nodes_; }

 private:
  using Node = torch::autograd::Node;
  using Row = std::vector<uint64_t>;

  size_t rootCount_, wantedCount_;
  std::unordered_map<const Node*, size_t> places_;
  std::vector<Node*> nodes_;
  std::vector<Row> from_, to_;  // by place: a bit for each root, for each wanted edge
};

}  // namespace saker::aot
