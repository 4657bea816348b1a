#include "aot/stages.h"

#include <torch/csrc/autograd/functions/tensor.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "aot/joint.h"
#include "aten/torch_version/autograd_node.h"

namespace saker::aot {

namespace {

using torch::autograd::Edge;
using torch::autograd::Node;

// Where an edge ends that led to a result.
struct Sink final : Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
};

constexpr size_t kNone = ~size_t{0};

class StageFinder {
 public:
  StageFinder(std::span<const Edge> roots, std::span<const CutPoint> cuts, std::span<const Edge> wanted)
      : roots_(roots), cuts_(cuts), wanted_(wanted), same_(roots.size()) {
    for (size_t i = 0; i < roots.size(); ++i) same_[i] = i;
    for (size_t i = 0; i < cuts.size(); ++i) cutAt_.emplace(key(cuts[i].edge), i);
    for (size_t i = 0; i < wanted.size(); ++i) {
      wantedAt_.emplace(key(wanted[i]), i);
      ends_.insert(wanted[i].function.get());
    }
  }

  std::vector<BackwardStage> run(bool plain) {
    for (size_t i = 0; i < roots_.size(); ++i) walk(i);
    bool linked = std::any_of(arrivals_.begin(), arrivals_.end(), [](const Arrival& arrival) { return arrival.isCut; });
    if (linked && !plain) throw NotAheadOfTime(Why::StagesOfWritten);
    std::stable_sort(arrivals_.begin(), arrivals_.end(),
                     [](const Arrival& a, const Arrival& b) { return a.from->sequence_nr() > b.from->sequence_nr(); });
    if (!plain) joinAll();
    order();
    if (!findSums()) {
      if (linked) throw NotAheadOfTime(Why::StagesReorder);
      joinAll();
      order();
      findSums();
    }
    bool apart = std::find(apart_.begin(), apart_.end(), true) != apart_.end();
    return linked || apart ? stages() : std::vector<BackwardStage>();
  }

 private:
  struct Arrival {
    Node* from;
    size_t place;  // among its edges
    bool isCut;
    size_t number;
    size_t root;  // of the stage that it is in
  };

  static std::pair<const Node*, uint32_t> key(const Edge& edge) { return {edge.function.get(), edge.input_nr}; }

  size_t find(size_t root) {
    while (same_[root] != root) root = same_[root] = same_[same_[root]];
    return root;
  }

  // Nodes that two roots lead to, without another result between, belong to one stage.
  void walk(size_t root) {
    std::vector<Node*> work;
    auto enter = [&](Node* node) {
      auto [known, isNew] = owner_.emplace(node, root);
      if (isNew) {
        work.push_back(node);
      } else {
        same_[find(known->second)] = find(root);
      }
    };
    if (!ends_.contains(roots_[root].function.get())) enter(roots_[root].function.get());
    while (!work.empty()) {
      Node* node = work.back();
      work.pop_back();
      for (size_t i = 0; i < node->next_edges().size(); ++i) {
        const Edge& edge = node->next_edges()[i];
        if (!edge.function) continue;
        if (auto cut = cutAt_.find(key(edge)); cut != cutAt_.end()) {
          arrivals_.push_back({node, i, true, cut->second, root});
        } else if (auto end = wantedAt_.find(key(edge)); end != wantedAt_.end()) {
          arrivals_.push_back({node, i, false, end->second, root});
        } else if (!ends_.contains(edge.function.get())) {
          enter(edge.function.get());
        }
      }
    }
  }

  void joinAll() {
    for (size_t i = 1; i < roots_.size(); ++i) same_[find(i)] = find(0);
  }

  // Each stage before those it leads to; of several that could come next, the one whose results were made last, as in
  // eager mode.
  void order() {
    place_.clear();
    std::map<size_t, std::set<size_t>> leadsTo;
    std::map<size_t, size_t> waiting;
    std::map<size_t, uint64_t> made;
    for (size_t i = 0; i < roots_.size(); ++i) {
      uint64_t& last = made[find(i)];
      last = std::max(last, roots_[i].function->sequence_nr());
      waiting.emplace(find(i), 0);
    }
    for (const Arrival& arrival : arrivals_) {
      if (!arrival.isCut || !cuts_[arrival.number].root) continue;
      size_t from = find(arrival.root), to = find(*cuts_[arrival.number].root);
      if (from == to) refuse();
      if (leadsTo[from].insert(to).second) ++waiting[to];
    }
    std::set<std::pair<uint64_t, size_t>> ready;
    for (auto [stage, count] : waiting) {
      if (count == 0) ready.emplace(made[stage], stage);
    }
    while (!ready.empty()) {
      size_t stage = ready.rbegin()->second;
      ready.erase(std::prev(ready.end()));
      place_.emplace(stage, place_.size());
      for (size_t next : leadsTo[stage]) {
        if (--waiting[next] == 0) ready.emplace(made[next], next);
      }
    }
    if (place_.size() != waiting.size()) refuse();
  }

  [[noreturn]] static void refuse() { throw NotAheadOfTime(Why::StagesShare); }

  size_t stageOf(const Arrival& arrival) { return place_.at(find(arrival.root)); }

  // Eager mode adds up a gradient one by one, with what comes from before and behind the function: so its summands are
  // given one by one. All of them are held at a time, which is why many of them from one stage are not. False: stages
  // do not give them in eager mode's order.
  bool findSums() {
    constexpr size_t kMost = 8;
    struct Sum {
      size_t count = 0, first = kNone, last = 0;
      bool inOrder = true;
    };
    std::vector<Sum> sums(wanted_.size());
    for (const Arrival& arrival : arrivals_) {
      if (arrival.isCut) continue;
      Sum& sum = sums[arrival.number];
      size_t stage = stageOf(arrival);
      ++sum.count;
      sum.inOrder &= sum.first == kNone || stage >= sum.last;
      if (sum.first == kNone) sum.first = stage;
      sum.last = stage;
    }
    apart_.resize(wanted_.size());
    for (size_t i = 0; i < sums.size(); ++i) {
      if (sums[i].count > 2 && !sums[i].inOrder) return false;
      bool stages = sums[i].count > 0 && sums[i].first != sums[i].last;
      apart_[i] = sums[i].count > 1 && (stages || sums[i].count <= kMost);
    }
    return true;
  }

  std::vector<BackwardStage> stages() {
    std::vector<BackwardStage> made(place_.size());
    for (size_t i = 0; i < roots_.size(); ++i) made[place_.at(find(i))].roots.push_back(i);
    std::set<std::pair<size_t, size_t>> whole;  // stage, number of what is wanted
    for (const Arrival& arrival : arrivals_) {
      size_t stage = stageOf(arrival);
      Edge& edge = arrival.from->next_edges()[arrival.place];
      if (arrival.isCut || apart_[arrival.number]) {
        auto sink = aten::makeNode<Sink>();
        aten::addInputLike(*sink, edge.function->input_metadata(edge.input_nr));
        edge = Edge(std::move(sink), 0);
        // The node of a write to a view asks that of the operator for the same edges.
        auto* write = dynamic_cast<torch::autograd::CopySlices*>(arrival.from);
        if (write && arrival.place > 0) write->fn->set_next_edge(arrival.place, edge);
      } else if (!whole.emplace(stage, arrival.number).second) {
        continue;
      }
      made[stage].gradients.push_back({edge, arrival.isCut, arrival.number});
    }
    return made;
  }

  std::span<const Edge> roots_;
  std::span<const CutPoint> cuts_;
  std::span<const Edge> wanted_;
  std::vector<size_t> same_;  // by root: another one of its stage, or itself
  std::map<std::pair<const Node*, uint32_t>, size_t> cutAt_, wantedAt_;
  std::set<const Node*> ends_;
  std::unordered_map<const Node*, size_t> owner_;  // by node: a root that leads to it
  std::vector<Arrival> arrivals_;
  std::map<size_t, size_t> place_;  // by root that stands for a stage
  std::vector<bool> apart_;         // by what is wanted: are its summands given one by one?
};

}  // namespace

std::vector<BackwardStage> cutAtResults(std::span<const Edge> roots, std::span<const CutPoint> cuts,
                                        std::span<const Edge> wanted, bool plain) {
  return StageFinder(roots, cuts, wanted).run(plain);
}

}  // namespace saker::aot
