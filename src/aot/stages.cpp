#include "aot/stages.h"

#include <torch/csrc/autograd/functions/tensor.h>

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <unordered_map>

#include "aot/joint.h"
#include "aten/torch_version/autograd_node.h"

namespace saker::aot {

namespace {

using torch::autograd::Edge;
using torch::autograd::Node;
using For = BackwardStage::Gradient::For;

// Where an edge ends that led to a result, or to an inner value.
struct Sink final : Node {
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
};

using EdgeKey = std::pair<const Node*, uint32_t>;
EdgeKey key(const Edge& edge) { return {edge.function.get(), edge.input_nr}; }

// Eager mode's engine runs one node after the other. A stage is what it runs between two moments of this sequence: so
// stages never wait for each other, and a sum of what several of them give is added up in eager mode's order. The
// alternative, a stage for what lies between results, has fewer values between stages; but where results share
// intermediate values with those that depend on them there is none, and the order of sums would have to be looked at.
class StageFinder {
 public:
  StageFinder(std::span<const Edge> roots, std::span<const CutPoint> cuts, std::span<const Edge> wanted,
              const StageRules& rules)
      : roots_(roots), cuts_(cuts), wanted_(wanted), rules_(rules) {
    for (size_t i = 0; i < cuts.size(); ++i) cutAt_.emplace(key(cuts[i].edge), i);
    for (size_t i = 0; i < wanted.size(); ++i) {
      wantedAt_.emplace(key(wanted[i]), i);
      ends_.insert(wanted[i].function.get());
    }
  }

  BackwardStages run() {
    walk();
    bool linked = std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.to == To::Cut; });
    if (linked && !rules_.plain) throw NotAheadOfTime(Why::StagesOfWritten);
    findSequence();
    if (linked) findBounds();
    findSums();
    bool apart = std::find(apart_.begin(), apart_.end(), true) != apart_.end();
    return linked || apart ? stages() : BackwardStages();
  }

 private:
  enum class To : uint8_t { Wanted, Cut, Node };
  // An edge of autograd's graph on the way from results to what is wanted.
  struct Step {
    Node* from;
    size_t place;  // among its edges
    To to;
    size_t number = 0;  // of the cut point, or of what is wanted
    const Edge& edge() const { return from->next_edges()[place]; }
  };

  // --- what autograd would run, and when ---

  void walk() {
    auto enter = [&](Node* node) {
      if (!ends_.contains(node) && position_.emplace(node, nodes_.size()).second) nodes_.push_back(node);
    };
    for (const Edge& root : roots_) enter(root.function.get());
    for (size_t next = 0; next < nodes_.size(); ++next) {
      Node* node = nodes_[next];
      for (size_t i = 0; i < node->next_edges().size(); ++i) {
        const Edge& edge = node->next_edges()[i];
        if (!edge.function) continue;
        if (auto cut = cutAt_.find(key(edge)); cut != cutAt_.end()) {
          steps_.push_back({node, i, To::Cut, cut->second});
          // A result that autograd takes for an argument.
          if (cuts_[cut->second].root && !target(steps_.back())) throw NotAheadOfTime(Why::StagesShare);
        } else if (auto end = wantedAt_.find(key(edge)); end != wantedAt_.end()) {
          steps_.push_back({node, i, To::Wanted, end->second});
        } else if (!ends_.contains(edge.function.get())) {
          steps_.push_back({node, i, To::Node});
          enter(edge.function.get());
        }
      }
    }
  }

  // The node that a step leads to, maybe by views that the caller gets.
  const Node* target(const Step& step) const {
    if (step.to == To::Node) return step.edge().function.get();
    if (step.to != To::Cut || !cuts_[step.number].root) return nullptr;
    const Node* node = roots_[*cuts_[step.number].root].function.get();
    return position_.contains(node) ? node : nullptr;
  }

  // Of the nodes that wait for none, the engine takes the one that was made last.
  void findSequence() {
    std::vector<size_t> waiting(nodes_.size());
    std::vector<std::vector<size_t>> leadsTo(nodes_.size());
    for (const Step& step : steps_) {
      const Node* to = target(step);
      if (!to) continue;
      leadsTo[position_.at(step.from)].push_back(position_.at(to));
      ++waiting[position_.at(to)];
    }
    std::priority_queue<std::pair<uint64_t, size_t>> ready;
    auto put = [&](size_t node) { ready.emplace(nodes_[node]->sequence_nr(), node); };
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (waiting[i] == 0) put(i);
    }
    std::vector<Node*> sequence;
    while (!ready.empty()) {
      size_t node = ready.top().second;
      ready.pop();
      sequence.push_back(nodes_[node]);
      for (size_t next : leadsTo[node]) {
        if (--waiting[next] == 0) put(next);
      }
    }
    if (sequence.size() != nodes_.size()) throw NotAheadOfTime(Why::StagesOfWritten);
    nodes_ = std::move(sequence);
    for (size_t i = 0; i < nodes_.size(); ++i) position_[nodes_[i]] = i;
    std::stable_sort(steps_.begin(), steps_.end(),
                     [&](const Step& a, const Step& b) { return position_.at(a.from) < position_.at(b.from); });
  }

  // --- where stages begin ---

  // A result is where a stage ends and another begins: behind the last node that gives it a gradient, and not behind
  // its own. As few stages as possible; and where there is a choice, as few values as possible between them.
  void findBounds() {
    std::vector<size_t> first(nodes_.size());  // by result's node: where the stage may begin that it is in
    std::vector<bool> isFirst(nodes_.size() + 1);
    for (const Step& step : steps_) {
      const Node* to = step.to == To::Cut ? target(step) : nullptr;
      if (to) first[position_.at(to)] = std::max(first[position_.at(to)], position_.at(step.from) + 1);
    }
    for (size_t at : first) isFirst[at] = at != 0;
    std::vector<size_t> passing = countPassing();
    size_t from = 0;  // the last of `first` until here: a bound behind it is one for all results that are open
    for (size_t last = 0; last < nodes_.size(); ++last) {
      if (isFirst[last]) from = last;
      if (first[last] == 0 || (!bounds_.empty() && bounds_.back() >= first[last])) continue;
      size_t best = last;
      for (size_t at = last; at-- > from;) best = passing[at] < passing[best] ? at : best;
      bounds_.push_back(best);
    }
  }

  // By moment of the sequence: how many gradients of intermediate values lie between what was run before and the rest.
  std::vector<size_t> countPassing() const {
    constexpr size_t kForbidden = size_t{1} << 20;
    std::vector<size_t> count(nodes_.size() + 1);
    std::set<EdgeKey> seen;
    for (const Step& step : steps_) {
      if (step.to != To::Node || !seen.insert(key(step.edge())).second) continue;
      size_t weight = rules_.mayPass(step.edge()) ? 1 : kForbidden;
      count[position_.at(step.from) + 1] += weight;
      count[position_.at(step.edge().function.get()) + 1] -= weight;
    }
    for (size_t i = 1; i < count.size(); ++i) count[i] += count[i - 1];
    return count;
  }

  size_t stageOf(const Node* node) const {
    auto known = position_.find(node);
    if (known == position_.end()) return bounds_.size();
    return static_cast<size_t>(std::upper_bound(bounds_.begin(), bounds_.end(), known->second) - bounds_.begin());
  }

  // --- what they give ---

  // Eager mode adds up a gradient one by one, with what comes from before and behind the function: so its summands are
  // given one by one. All of them are held at a time, which is why many of them from one stage are not; and generated
  // code, which adds in an order of its own anyhow, gives none of them.
  void findSums() {
    constexpr size_t kMost = 8;
    struct Sum {
      size_t count = 0, first = 0, last = 0;  // stages
    };
    std::vector<Sum> sums(wanted_.size());
    for (const Step& step : steps_) {
      if (step.to != To::Wanted) continue;
      Sum& sum = sums[step.number];
      sum.last = stageOf(step.from);
      if (sum.count++ == 0) sum.first = sum.last;
    }
    size_t most = rules_.summands ? kMost : 0;
    for (const Sum& sum : sums) {
      apart_.push_back(sum.count > 1 && (sum.first != sum.last || sum.count <= most));
    }
  }

  BackwardStages stages() {
    BackwardStages made;
    made.stages.resize(bounds_.size() + 1);
    for (size_t i = 0; i < roots_.size(); ++i) made.stages[stageOf(roots_[i].function.get())].roots.push_back(i);
    std::set<std::pair<size_t, size_t>> whole;  // stage, number of what is wanted
    for (const Step& step : steps_) {
      size_t stage = stageOf(step.from);
      std::vector<BackwardStage::Gradient>& gradients = made.stages[stage].gradients;
      switch (step.to) {
        case To::Cut:
          gradients.push_back({For::Cut, endHere(step), step.number});
          break;
        case To::Wanted:
          if (apart_[step.number]) {
            gradients.push_back({For::Wanted, endHere(step), step.number});
          } else if (whole.emplace(stage, step.number).second) {
            gradients.push_back({For::Wanted, step.edge(), step.number});
          }
          break;
        case To::Node:
          if (stage != stageOf(step.edge().function.get())) pass(step, stage, made);
      }
    }
    return made;
  }

  // Nobody else adds to an inner value: what the first stage gives may be added up in it.
  void pass(const Step& step, size_t stage, BackwardStages& made) {
    const Edge edge = step.edge();
    auto [known, isNew] = inner_.try_emplace(key(edge), Inner{made.inner.size(), stage, {}});
    Inner& inner = known->second;
    if (isNew) {
      if (!rules_.mayPass(edge)) throw NotAheadOfTime(Why::StagesShare);
      made.inner.push_back(edge);
      made.stages[stageOf(edge.function.get())].inner.push_back(inner.number);
    } else if (stage == inner.stage) {
      lead(step, inner.sink);
      return;
    }
    Edge sink = endHere(step);
    if (isNew) inner.sink = sink;
    made.stages[stage].gradients.push_back({For::Inner, sink, inner.number});
  }

  static Edge endHere(const Step& step) {
    auto sink = aten::makeNode<Sink>();
    aten::addInputLike(*sink, step.edge().function->input_metadata(step.edge().input_nr));
    Edge edge(std::move(sink), 0);
    lead(step, edge);
    return edge;
  }

  static void lead(const Step& step, const Edge& edge) {
    step.from->next_edges()[step.place] = edge;
    // The node of a write to a view asks that of the operator for the same edges.
    auto* write = dynamic_cast<torch::autograd::CopySlices*>(step.from);
    if (write && step.place > 0) write->fn->set_next_edge(step.place, edge);
  }

  struct Inner {
    size_t number, stage;  // the first stage that gives it a gradient
    Edge sink;             // where that arrives
  };

  std::span<const Edge> roots_;
  std::span<const CutPoint> cuts_;
  std::span<const Edge> wanted_;
  const StageRules& rules_;
  std::map<EdgeKey, size_t> cutAt_, wantedAt_;
  std::set<const Node*> ends_;
  std::vector<Node*> nodes_;  // in the sequence in which they run
  std::unordered_map<const Node*, size_t> position_;
  std::vector<Step> steps_;     // in that sequence
  std::vector<size_t> bounds_;  // nodes that stages begin with, but for the first one
  std::vector<bool> apart_;     // by what is wanted: are its summands given one by one?
  std::map<EdgeKey, Inner> inner_;
};

}  // namespace

BackwardStages cutAtResults(std::span<const Edge> roots, std::span<const CutPoint> cuts, std::span<const Edge> wanted,
                            const StageRules& rules) {
  return StageFinder(roots, cuts, wanted, rules).run();
}

}  // namespace saker::aot
