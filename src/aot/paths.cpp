#include "aot/paths.h"

#include <unordered_set>

namespace saker::aot {

namespace {

using torch::autograd::Edge;

void set(std::vector<uint64_t>& row, size_t bit) { row[bit / 64] |= uint64_t{1} << (bit % 64); }

void merge(std::vector<uint64_t>& row, const std::vector<uint64_t>& other) {
  for (size_t i = 0; i < row.size(); ++i) row[i] |= other[i];
}

std::vector<bool> bits(const std::vector<uint64_t>& row, size_t count) {
  std::vector<bool> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = row[i / 64] >> (i % 64) & 1;
  return out;
}

}  // namespace

Paths::Paths(const std::vector<Edge>& roots, const std::vector<Edge>& wanted)
    : rootCount_(roots.size()), wantedCount_(wanted.size()) {
  std::unordered_set<const Node*> ends;
  for (const Edge& edge : wanted) ends.insert(edge.function.get());
  // Depth first, without recursion: graphs are deep.
  std::vector<std::pair<Node*, size_t>> work;
  std::unordered_set<const Node*> seen;
  auto enter = [&](const Edge& edge) {
    if (edge.function && seen.insert(edge.function.get()).second) work.emplace_back(edge.function.get(), 0);
  };
  for (const Edge& root : roots) {
    enter(root);
    while (!work.empty()) {
      auto& [node, next] = work.back();
      if (!ends.contains(node) && next < node->next_edges().size()) {
        enter(node->next_edges()[next++]);
        continue;
      }
      places_.emplace(node, nodes_.size());
      nodes_.push_back(node);
      work.pop_back();
    }
  }
  from_.assign(nodes_.size(), Row((rootCount_ + 63) / 64));
  to_.assign(nodes_.size(), Row((wantedCount_ + 63) / 64));
  auto eachNext = [&](size_t place, const auto& visit) {
    if (ends.contains(nodes_[place])) return;
    for (const Edge& edge : nodes_[place]->next_edges()) {
      if (edge.function) visit(places_.at(edge.function.get()));
    }
  };
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (auto place = places_.find(wanted[i].function.get()); place != places_.end()) set(to_[place->second], i);
  }
  for (size_t place = 0; place < nodes_.size(); ++place) {
    eachNext(place, [&](size_t next) { merge(to_[place], to_[next]); });
  }
  for (size_t i = 0; i < roots.size(); ++i) set(from_[places_.at(roots[i].function.get())], i);
  for (size_t place = nodes_.size(); place-- > 0;) {
    eachNext(place, [&](size_t next) { merge(from_[next], from_[place]); });
  }
}

std::vector<bool> Paths::tangents(const Node* node) const {
  auto place = places_.find(node);
  return place == places_.end() ? std::vector<bool>(rootCount_) : bits(from_[place->second], rootCount_);
}

std::vector<bool> Paths::gradients(const Node* node) const {
  auto place = places_.find(node);
  return place == places_.end() ? std::vector<bool>(wantedCount_) : bits(to_[place->second], wantedCount_);
}

}  // namespace saker::aot
