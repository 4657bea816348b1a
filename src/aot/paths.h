// Which tangents lead through a node of autograd's graph, and to which gradients.
#pragma once

#include <torch/csrc/autograd/function.h>

#include <span>
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
  // The same of nodes()[place], for comparing: equal where both answers are.
  std::span<const uint64_t> bits(size_t place) const { return {bits_.data() + place * words(), words()}; }
  // All nodes on the ways, each behind those it leads to.
  const std::vector<torch::autograd::Node*>& nodes() const { return nodes_; }

 private:
  using Node = torch::autograd::Node;

  size_t words() const { return rootWords_ + wantedWords_; }
  uint64_t* from(size_t place) { return bits_.data() + place * words(); }
  uint64_t* to(size_t place) { return from(place) + rootWords_; }
  std::vector<bool> answer(const Node* node, size_t firstWord, size_t count) const;

  size_t rootCount_, wantedCount_, rootWords_, wantedWords_;
  std::unordered_map<const Node*, size_t> places_;
  std::vector<Node*> nodes_;
  std::vector<uint64_t> bits_;  // by place: one for each root, then one for each wanted edge
};

}  // namespace saker::aot
