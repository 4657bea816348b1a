// Maximum flow and minimum cut, by Dinic's algorithm: breadth-first levels, then as much flow along them as goes, until
// the sink is cut off. Without recursion; the same input always gives the same cut.
#pragma once

#include <cstdint>
#include <vector>

namespace saker::autograd {

class MaxFlow {
 public:
  using Capacity = int64_t;
  // No cut goes through such an edge. The other capacities together must be less.
  static constexpr Capacity kUnlimited = Capacity{1} << 60;

  explicit MaxFlow(uint32_t vertices = 0) : vertices_(vertices) {}
  uint32_t addVertex() { return vertices_++; }
  uint32_t vertices() const { return vertices_; }
  void addEdge(uint32_t from, uint32_t to, Capacity capacity) { edges_.push_back({from, to, capacity}); }

  // The largest flow. kUnlimited or more: every cut would go through an unlimited edge, and there is no answer to the
  // question below.
  Capacity run(uint32_t source, uint32_t sink);

  // After run(): the sides of the minimum cut that is nearest to the sink.
  const std::vector<bool>& onSinkSide() const { return sinkSide_; }

 private:
  struct Edge {
    uint32_t from, to;
    Capacity capacity;
  };
  // An edge and its reverse stand at places that differ in the last bit.
  struct Arc {
    uint32_t to;
    Capacity left;
  };

  void build();
  bool findLevels(uint32_t source, uint32_t sink);
  Capacity push(uint32_t source, uint32_t sink);
  void findSinkSide(uint32_t sink);

  uint32_t vertices_;
  std::vector<Edge> edges_;
  std::vector<Arc> arcs_;
  std::vector<uint32_t> first_, order_;  // arcs of vertex v: order_[first_[v]] up to order_[first_[v + 1]]
  std::vector<uint32_t> level_;          // steps to the sink
  std::vector<uint32_t> next_;           // by vertex: where to go on in its arcs
  std::vector<uint32_t> queue_;
  std::vector<bool> sinkSide_;
};

}  // namespace saker::autograd
