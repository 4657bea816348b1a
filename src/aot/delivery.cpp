#include "aot/delivery.h"

#include <algorithm>
#include <unordered_map>

namespace saker::aot {

namespace {

class Finder {
 public:
  Finder(const Joint& joint, const Joint::Stage& stage) : joint_(joint), stage_(stage) {
    std::unordered_map<size_t, size_t> entries;  // by eager mode's node
    for (size_t tangent : stage.tangents) {
      auto [entry, isNew] = entries.emplace(joint.nodeOf[tangent], entries.size());
      if (isNew) at_.push_back(joint.rootAt[tangent]);
      made_.entryOf.push_back(entry->second);
    }
    made_.entries = entries.size();
    for (size_t i = 0; i < stage.gradients.size(); ++i) {
      if (joint.isIndices(stage.gradients[i])) continue;
      leading_.push_back(entriesTo(stage.gradients[i]));
      if (!leading_.back().empty()) reached_.push_back(i);
    }
    // Autograd takes the node that was made last.
    std::stable_sort(reached_.begin(), reached_.end(), [&](size_t a, size_t b) {
      const Joint::Given &first = given(a), &second = given(b);
      return first.when() != second.when() ? first.when() > second.when() : first.place < second.place;
    });
  }

  bool isOne() const {
    return std::all_of(reached_.begin(), reached_.end(), [&](size_t i) { return leading_[i].size() == made_.entries; });
  }

  Delivery together() {
    for (size_t gradient : reached_) {
      size_t exit = made_.exits.size();
      // What is for one tensor is added up in eager mode's order.
      for (size_t i = made_.exits.size(); i-- > 0 && !isSummand(i + 1, gradient);) {
        if (made_.exits[i].entries != leading_[gradient]) continue;
        exit = i;
        break;
      }
      add(exit, gradient);
    }
    for (size_t entry : sortedEntries()) made_.order.push_back({false, entry});
    for (size_t exit = 0; exit < made_.exits.size(); ++exit) made_.order.push_back({true, exit});
    return std::move(made_);
  }

  Delivery inTurn() {
    std::vector<size_t> entries = sortedEntries();
    size_t next = 0;
    for (size_t i = 0; i < reached_.size(); ++i) {
      const Joint::Given& now = given(reached_[i]);
      if (i > 0 && given(reached_[i - 1]).when() == now.when()) {
        add(made_.exits.size() - 1, reached_[i]);
        continue;
      }
      for (; next < entries.size() && at_[entries[next]] >= now.node; ++next)
        made_.order.push_back({false, entries[next]});
      made_.order.push_back({true, made_.exits.size()});
      add(made_.exits.size(), reached_[i]);
    }
    for (; next < entries.size(); ++next) made_.order.push_back({false, entries[next]});
    return std::move(made_);
  }

 private:
  const Joint::Given& given(size_t gradient) const { return joint_.givenAt[stage_.gradients[gradient]]; }

  std::vector<size_t> entriesTo(size_t gradient) const {
    std::vector<size_t> found;
    for (size_t i = 0; i < stage_.tangents.size(); ++i) {
      if (joint_.reaches[stage_.tangents[i]][gradient]) found.push_back(made_.entryOf[i]);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  // Does an exit give a summand of the same gradient?
  bool isSummand(size_t exit, size_t gradient) const {
    if (exit >= made_.exits.size()) return false;
    const std::vector<size_t>& other = made_.exits[exit].gradients;
    return std::any_of(other.begin(), other.end(), [&](size_t i) {
      return joint_.gradientOf[stage_.gradients[i]] == joint_.gradientOf[stage_.gradients[gradient]];
    });
  }

  void add(size_t exit, size_t gradient) {
    if (exit == made_.exits.size()) made_.exits.push_back({{}, leading_[gradient]});
    Delivery::Exit& to = made_.exits[exit];
    to.gradients.push_back(gradient);
    std::vector<size_t> both;
    std::set_union(to.entries.begin(), to.entries.end(), leading_[gradient].begin(), leading_[gradient].end(),
                   std::back_inserter(both));
    to.entries = std::move(both);
  }

  std::vector<size_t> sortedEntries() const {
    std::vector<size_t> entries(made_.entries);
    for (size_t i = 0; i < entries.size(); ++i) entries[i] = i;
    std::stable_sort(entries.begin(), entries.end(), [&](size_t a, size_t b) { return at_[a] > at_[b]; });
    return entries;
  }

  const Joint& joint_;
  const Joint::Stage& stage_;
  Delivery made_;
  std::vector<uint64_t> at_;                  // by entry: when eager mode's node was made
  std::vector<std::vector<size_t>> leading_;  // by gradient: the entries that lead to it
  std::vector<size_t> reached_;               // gradients, in the order in which eager mode has them
};

}  // namespace

std::optional<Delivery> deliverTogether(const Joint& joint, const Joint::Stage& stage) {
  Finder finder(joint, stage);
  if (finder.isOne()) return std::nullopt;
  return finder.together();
}

Delivery deliverInTurn(const Joint& joint, const Joint::Stage& stage) { return Finder(joint, stage).inTurn(); }

}  // namespace saker::aot
