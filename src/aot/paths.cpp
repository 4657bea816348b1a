#include "aot/paths.h"

#include <unordered_set>

namespace saker::aot {

namespace {

using torch::autograd::Edge;

constexpr size_t kWord = 64;

void set(uint64_t* bits, size_t bit) { bits[bit / kWord] |= uint64_t{1} << (bit % kWord); }

void merge(uint64_t* bits, const uint64_t* other, size_t words) {
  for (size_t i = 0; i < words; ++i) bits[i] |= other[i];
}

}  // namespace

Paths::Paths(const std::vector<Edge>& roots, const std::vector<Edge>& wanted)
    : rootCount_(roots.size()),
      wantedCount_(wanted.size()),
      rootWords_((rootCount_ + kWord - 1) / kWord),
      wantedWords_((wantedCount_ + kWord - 1) / kWord) {
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
  bits_.resize(nodes_.size() * words());
  auto eachNext = [&](size_t place, const auto& visit) {
    if (ends.contains(nodes_[place])) return;
    for (const Edge& edge : nodes_[place]->next_edges()) {
      if (edge.function) visit(places_.at(edge.function.get()));
    }
  };
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (auto place = places_.find(wanted[i].function.get()); place != places_.end()) set(to(place->second), i);
  }
  for (size_t place = 0; place < nodes_.size(); ++place) {
    eachNext(place, [&](size_t next) { merge(to(place), to(next), wantedWords_); });
  }
  for (size_t i = 0; i < roots.size(); ++i) set(from(places_.at(roots[i].function.get())), i);
  for (size_t place = nodes_.size(); place-- > 0;) {
    eachNext(place, [&](size_t next) { merge(from(next), from(place), rootWords_); });
  }
}

std::vector<bool> Paths::tangents(const Node* node) const { return answer(node, 0, rootCount_); }

std::vector<bool> Paths::gradients(const Node* node) const { return answer(node, rootWords_, wantedCount_); }

std::vector<bool> Paths::answer(const Node* node, size_t firstWord, size_t count) const {
  std::vector<bool> out(count);
  auto place = places_.find(node);
  if (place == places_.end()) return out;
  std::span<const uint64_t> row = bits(place->second).subspan(firstWord);
  for (size_t i = 0; i < count; ++i) out[i] = row[i / kWord] >> (i % kWord) & 1;
  return out;
}

}  // namespace saker::aot
