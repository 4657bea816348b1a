#include "autograd/max_flow.h"

#include <algorithm>
#include <utility>

namespace saker::autograd {
namespace {

constexpr uint32_t kNowhere = UINT32_MAX;

}  // namespace

void MaxFlow::build() {
  arcs_.clear();
  first_.assign(vertices_ + 1, 0);
  for (const Edge& edge : edges_) {
    arcs_.push_back({edge.to, edge.capacity});
    arcs_.push_back({edge.from, 0});
    ++first_[edge.from];
    ++first_[edge.to];
  }
  uint32_t at = 0;
  for (uint32_t& first : first_) at += std::exchange(first, at);
  order_.resize(arcs_.size());
  next_ = first_;
  for (uint32_t arc = 0; arc < arcs_.size(); ++arc) order_[next_[arcs_[arc ^ 1].to]++] = arc;
}

MaxFlow::Capacity MaxFlow::run(uint32_t source, uint32_t sink) {
  build();
  Capacity flow = 0;
  while (flow < kUnlimited && findLevels(source, sink)) {
    next_ = first_;
    while (Capacity pushed = push(source, sink)) {
      flow += pushed;
      if (flow >= kUnlimited) return flow;
    }
  }
  findSinkSide(sink);
  return flow;
}

// From the sink, so that paths run along falling levels and dead ends are few.
bool MaxFlow::findLevels(uint32_t source, uint32_t sink) {
  level_.assign(vertices_, kNowhere);
  level_[sink] = 0;
  queue_.assign(1, sink);
  for (size_t head = 0; head < queue_.size(); ++head) {
    uint32_t vertex = queue_[head];
    if (vertex == source) return true;
    for (uint32_t i = first_[vertex]; i < first_[vertex + 1]; ++i) {
      uint32_t arc = order_[i], from = arcs_[arc].to;
      if (arcs_[arc ^ 1].left == 0 || level_[from] != kNowhere) continue;
      level_[from] = level_[vertex] + 1;
      queue_.push_back(from);
    }
  }
  return level_[source] != kNowhere;
}

// One path along the levels; 0 if there is none. Arcs that lead nowhere are not tried again.
MaxFlow::Capacity MaxFlow::push(uint32_t source, uint32_t sink) {
  std::vector<uint32_t>& path = queue_;  // of arcs
  path.clear();
  uint32_t vertex = source;
  while (vertex != sink) {
    if (next_[vertex] < first_[vertex + 1]) {
      uint32_t arc = order_[next_[vertex]], to = arcs_[arc].to;
      if (arcs_[arc].left > 0 && level_[to] != kNowhere && level_[to] + 1 == level_[vertex]) {
        path.push_back(arc);
        vertex = to;
      } else {
        ++next_[vertex];
      }
    } else {
      if (path.empty()) return 0;
      vertex = arcs_[path.back() ^ 1].to;
      path.pop_back();
      ++next_[vertex];
    }
  }
  Capacity pushed = INT64_MAX;
  for (uint32_t arc : path) pushed = std::min(pushed, arcs_[arc].left);
  for (uint32_t arc : path) {
    arcs_[arc].left -= pushed;
    arcs_[arc ^ 1].left += pushed;
  }
  return pushed;
}

void MaxFlow::findSinkSide(uint32_t sink) {
  sinkSide_.assign(vertices_, false);
  sinkSide_[sink] = true;
  queue_.assign(1, sink);
  for (size_t head = 0; head < queue_.size(); ++head) {
    for (uint32_t i = first_[queue_[head]]; i < first_[queue_[head] + 1]; ++i) {
      uint32_t arc = order_[i], from = arcs_[arc].to;
      if (arcs_[arc ^ 1].left == 0 || sinkSide_[from]) continue;
      sinkSide_[from] = true;
      queue_.push_back(from);
    }
  }
}

}  // namespace saker::autograd
