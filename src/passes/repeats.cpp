#include "passes/repeats.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ir/context.h"
#include "support/intern_table.h"

namespace saker::passes {

namespace {

using ir::Node;

constexpr size_t kLeastTimes = 3;
constexpr size_t kLeastNodes = 4;   // in a run: a call of less costs what it saves
constexpr size_t kMostPeriods = 4;  // that one graph has, such as encoder and decoder
constexpr size_t kLooksBack = 8;    // at how many nodes that are alike, for the distance to the run before
constexpr size_t kCandidates = 8;   // distances that are tried

uint64_t hashOf(uint64_t hash, const ir::Arg& arg) {
  if (arg.isValue()) return hashMix(hash, reinterpret_cast<uintptr_t>(arg.toValue()->type()));
  if (!arg.isList()) return ir::hashArg(hash, arg);
  hash = hashMix(hash, arg.toList().size());
  for (const ir::Arg& item : arg.toList()) hash = hashOf(hash, item);
  return hash;
}

// Equal for nodes that may stand at the same place of two runs.
uint64_t hashOf(const Node& node) {
  uint64_t hash = reinterpret_cast<uintptr_t>(node.op());
  hash = hashMix(hash, node.attributes().noGrad);
  if (const ir::Location* line = node.location()) {
    hash = hashMix(hash, std::hash<std::string_view>()(line->file));
    hash = hashMix(hash, static_cast<uint64_t>(line->line));
  }
  for (const ir::Arg& arg : node.args()) hash = hashOf(hash, arg);
  for (size_t i = 0; i < node.resultCount(); ++i) {
    hash = hashMix(hash, reinterpret_cast<uintptr_t>(node.result(i)->type()));
  }
  return hash;
}

class Finder {
 public:
  explicit Finder(const ir::Region& region) {
    for (Node* node = region.first(); node && !node->isReturn(); node = node->next()) {
      places_.emplace(node, nodes_.size());
      nodes_.push_back(node);
      // A body of its own is never part of a run.
      hashes_.push_back(node->regions().empty() ? hashOf(*node) : hashMix(nodes_.size(), 0));
    }
    taken_.resize(nodes_.size());
  }

  std::vector<NodeRun> find() {
    for (size_t i = 0; i < kMostPeriods; ++i) {
      size_t period = bestPeriod();
      if (!period) break;
      for (const Stretch& stretch : stretches(period)) takeRuns(stretch, period);
    }
    return std::move(found_);
  }

 private:
  // Nodes [first, last) are repeated one period later.
  struct Stretch {
    size_t first, last;
  };

  bool agree(size_t a, size_t b) const { return hashes_[a] == hashes_[b] && !taken_[a] && !taken_[b]; }

  std::vector<Stretch> stretches(size_t period) const {
    std::vector<Stretch> out;
    for (size_t i = 0, first = 0; i + period <= nodes_.size(); ++i) {
      if (i + period < nodes_.size() && agree(i, i + period)) continue;
      if (i - first >= period * (kLeastTimes - 1)) out.push_back({first, i});
      first = i + 1;
    }
    return out;
  }

  // The distance after which most nodes come again; 0: there is none.
  size_t bestPeriod() const {
    std::unordered_map<uint64_t, std::vector<size_t>> seen;
    std::map<size_t, size_t> votes;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (taken_[i]) continue;
      std::vector<size_t>& before = seen[hashes_[i]];
      for (size_t k = 0; k < std::min(before.size(), kLooksBack); ++k) ++votes[i - before[before.size() - 1 - k]];
      before.push_back(i);
    }
    std::vector<std::pair<size_t, size_t>> best;  // votes, period
    for (auto [period, count] : votes) best.emplace_back(count, period);
    std::sort(best.begin(), best.end(), [](auto a, auto b) { return a.first != b.first ? a.first > b.first : a < b; });
    size_t found = 0, covered = 0;
    for (size_t i = 0; i < std::min(best.size(), kCandidates); ++i) {
      size_t period = best[i].second, count = 0;
      if (period < kLeastNodes) period *= (kLeastNodes + period - 1) / period;
      for (const Stretch& stretch : stretches(period)) count += stretch.last - stretch.first + period;
      if (count > covered || (count == covered && period < found)) std::tie(covered, found) = std::pair(count, period);
    }
    return found;
  }

  // How many values of the stretch are made before each node and read there or later.
  std::vector<size_t> alive(const Stretch& stretch, size_t period) const {
    size_t end = stretch.last + period;
    std::vector<int64_t> changes(end - stretch.first + 2);
    for (size_t i = stretch.first; i < end; ++i) {
      for (size_t r = 0; r < nodes_[i]->resultCount(); ++r) {
        size_t last = i;
        for (const ir::Use* use = nodes_[i]->result(r)->firstUse(); use; use = use->next) {
          auto place = places_.find(use->user);
          last = std::max(last, place == places_.end() ? end : std::min(end, place->second));
        }
        if (last == i) continue;
        ++changes[i + 1 - stretch.first];
        --changes[last + 1 - stretch.first];
      }
    }
    std::vector<size_t> out;
    int64_t count = 0;
    for (int64_t change : changes) out.push_back(static_cast<size_t>(count += change));
    return out;
  }

  void takeRuns(const Stretch& stretch, size_t period) {
    std::vector<size_t> values = alive(stretch, period);
    size_t best = 0, fewest = SIZE_MAX, length = stretch.last + period - stretch.first;
    for (size_t offset = 0; offset < period && offset + kLeastTimes * period <= length; ++offset) {
      size_t count = 0, times = 0;
      for (size_t at = offset + period; at <= length; at += period) count += values[at], ++times;
      count = count * 1024 / times;  // for each boundary: their number differs by one
      if (count < fewest) std::tie(fewest, best) = std::pair(count, offset);
    }
    for (size_t i = stretch.first; i < stretch.last + period; ++i) taken_[i] = true;
    for (size_t at = stretch.first + best; at + period <= stretch.last + period; at += period) {
      NodeRun& run = found_.emplace_back();
      run.first = nodes_[at];
      run.last = nodes_[at + period - 1];
    }
  }

  std::vector<Node*> nodes_;
  std::vector<uint64_t> hashes_;  // by node
  std::vector<bool> taken_;       // by node: it belongs to a run
  std::unordered_map<const Node*, size_t> places_;
  std::vector<NodeRun> found_;
};

}  // namespace

std::vector<NodeRun> repeatedRuns(const ir::Region& region) { return Finder(region).find(); }

}  // namespace saker::passes
