// A memory budget: first the bans that only save time are lifted, then heavy operators are computed again, those that
// free much memory for little time before others.
#include <algorithm>

#include "autograd/checkpoint.h"
#include "autograd/knapsack.h"
#include "autograd/min_cut.h"
#include "autograd/recompute.h"

namespace saker::autograd {
namespace {

class Budget {
 public:
  Budget(const JointGraph& joint, const Exposure& exposure)
      : joint_(joint), exposure_(exposure), bans_(findBans(joint)), costs_(savingCosts(joint)) {
    unsavable_ = findUnsavable(joint, bans_);
    forbid();
  }

  std::variant<Choice, std::string> asAsked() {
    plainCosts();
    std::vector<bool> banned(bans_.size());
    for (size_t place = 0; place < bans_.size(); ++place) {
      bool asked = joint_.nodes()[place]->attributes().recomputes() && bans_[place] == Ban::None;
      banned[place] = joint_.inForward(place) && !asked && !joint_.isView(place);
    }
    return cut(banned);
  }

  std::variant<Choice, std::string> within(double budget) {
    if (budget >= 1) return cut(from(Ban::Soft));
    std::variant<Choice, std::string> fastest = cut(from(Ban::Soft));
    if (std::holds_alternative<std::string>(fastest)) return fastest;
    // Now bytes count, not time.
    plainCosts();
    Choice smallest = std::get<Choice>(cut(from(Ban::Never)));
    uint64_t least = bytesOf(joint_, smallest), most = bytesOf(joint_, std::get<Choice>(fastest));
    if (budget <= 0 || most <= least) return most <= least ? fastest : smallest;
    uint64_t room = least + static_cast<uint64_t>(budget * static_cast<double>(most - least));
    Choice light = std::get<Choice>(cut(from(Ban::Heavy)));
    if (bytesOf(joint_, light) <= room) return light;
    return weigh(least, room, std::move(smallest));
  }

 private:
  std::vector<bool> from(Ban weakest) const {
    std::vector<bool> banned(bans_.size());
    for (size_t i = 0; i < bans_.size(); ++i) banned[i] = bans_[i] >= weakest;
    return banned;
  }
  std::variant<Choice, std::string> cut(const std::vector<bool>& banned) const {
    return minCut(joint_, exposure_, banned, costs_);
  }

  void forbid() {
    for (size_t i = 0; i < costs_.size(); ++i) {
      if (unsavable_[i]) costs_[i] = -1;
    }
  }

  void plainCosts() {
    auto set = [&](const ir::Value* value) {
      bool free = value->isParameter() && !joint_.mustCopy(value);
      costs_[value->id()] = free ? 0 : static_cast<double>(std::max<uint64_t>(1, joint_.bytesOf(value)));
    };
    for (const ir::Value* parameter : joint_.graph().top()->parameters()) set(parameter);
    for (const ir::Node* node : joint_.nodes()) {
      for (size_t i = 0; i < node->resultCount(); ++i) set(node->result(i));
    }
    forbid();
  }

  // Which heavy operators are kept. What the others need must be saved too, and they may share it, so what a choice
  // takes is seen only by cutting: the room for the choice shrinks until it fits.
  Choice weigh(uint64_t least, uint64_t room, Choice smallest) {
    std::vector<size_t> places;
    std::vector<Item> items;
    for (size_t place = 0; place < bans_.size(); ++place) {
      if (bans_[place] != Ban::Heavy) continue;
      const ir::Node* node = joint_.nodes()[place];
      uint64_t bytes = 0;
      for (size_t i = 0; i < node->resultCount(); ++i) bytes += joint_.bytesOf(node->result(i));
      places.push_back(place);
      items.push_back({bytes, timeOf(joint_, place)});
    }
    uint64_t choice = room - least;
    for (int attempt = 0; attempt < kAttempts; ++attempt, choice /= 2) {
      std::vector<bool> kept = knapsack(items, choice);
      std::vector<bool> banned = from(Ban::Never);
      for (size_t i = 0; i < places.size(); ++i) banned[places[i]] = kept[i];
      Choice saved = std::get<Choice>(cut(banned));
      if (bytesOf(joint_, saved) <= room) return saved;
    }
    return smallest;
  }

  static constexpr int kAttempts = 8;
  const JointGraph& joint_;
  const Exposure& exposure_;
  std::vector<Ban> bans_;
  std::vector<double> costs_;
  std::vector<bool> unsavable_;  // by value id
};

}  // namespace

std::variant<Choice, std::string> minCutAsAsked(const JointGraph& joint, const Exposure& exposure) {
  return Budget(joint, exposure).asAsked();
}

std::variant<Choice, std::string> minCutWithin(const JointGraph& joint, const Exposure& exposure, double memoryBudget) {
  return Budget(joint, exposure).within(memoryBudget);
}

}  // namespace saker::autograd
