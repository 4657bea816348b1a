// Of what one group stores and others load, some is cheaper to compute where it is read: 2 * x needs x only, which is
// in memory anyhow; and of t * x and t * y it is enough to store t. Such nodes leave their group, and become copies in
// each of their readers, as views are.
#include <algorithm>
#include <map>

#include "lower/groups.h"
#include "ops/effects.h"

namespace saker::lower {
namespace {

constexpr int64_t kUnknownSize = 512;  // of a dimension whose size is a symbol
constexpr int kMostRounds = 4;         // what is left to readers may be read by what is left in the next round
constexpr size_t kMostReaders = 4;     // groups that would have a copy

double bytesOf(const ir::Value* value) {
  const ir::TensorType* type = value->tensor();
  if (!type) return 0;
  auto bytes = static_cast<double>(ir::byteSize(type->dtype));
  for (Int size : type->sizes()) bytes *= static_cast<double>(size.isConst() ? size.constant() : kUnknownSize);
  return bytes;
}

template <typename T>
bool contains(const std::vector<T>& all, const T& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

// The values in memory that a node reads, through views and fills.
void Groups::sources(const ir::Node* node, Values& found) const {
  for (const ir::Use& use : node->operands()) {
    const ir::Node* def = use.value->def();
    if (def && has(def) && facts_[def->id()].part == Part::Free) {
      sources(def, found);
    } else if (!contains(found, static_cast<const ir::Value*>(use.value))) {
      found.push_back(use.value);
    }
  }
}

// The other groups that read a node of this one. Nothing: something else reads it too, or it has to stay.
std::vector<uint32_t> Groups::readersOf(const ir::Node* node, uint32_t own) const {
  const ops::Operator* op = ops::of(node);
  if (!op || op->cost != ops::Cost::Pointwise || !facts_[node->id()].cheap) return {};
  if (node->resultCount() != 1 || !order_.touches(node).empty()) return {};
  ops::Effects effects = ops::effectsOf(*node);
  if (effects.writes || effects.ordered() || effects.has(ops::kFailsOnData)) return {};
  std::vector<const ir::Node*> users;
  readers(node->result(0), users);
  std::vector<uint32_t> found;
  for (const ir::Node* user : users) {
    if (has(user) && facts_[user->id()].part == Part::Free) continue;
    uint32_t group = of(user);
    if (group == kNoGroup || groups_[group].nodes.size() < options_.fewestNodes) return {};
    if (group != own && !contains(found, group)) found.push_back(group);
  }
  return found.size() > kMostReaders ? std::vector<uint32_t>() : found;
}

// Is the value of this group in memory, since others read it?
bool Groups::isStored(const ir::Value* value, uint32_t own) const {
  std::vector<const ir::Node*> users;
  readers(value, users);
  return std::any_of(users.begin(), users.end(), [&](const ir::Node* user) {
    return (!has(user) || facts_[user->id()].part != Part::Free) && of(user) != own;
  });
}

// Leaves some nodes to their readers, if fewer bytes are moved so; to that end `needed` (nullptr: nothing) is stored.
bool Groups::tryToLeave(uint32_t own, const std::vector<const ir::Node*>& nodes, const ir::Value* needed) {
  double gain = needed ? -bytesOf(needed) : 0;
  std::vector<std::pair<uint32_t, const ir::Value*>> loads;
  for (const ir::Node* node : nodes) {
    Values inputs;
    sources(node, inputs);
    std::vector<uint32_t> groups = readersOf(node, own);
    gain += bytesOf(node->result(0)) * static_cast<double>(1 + groups.size());
    for (uint32_t group : groups) {
      Values read;
      for (const ir::Node* member : groups_[group].nodes) sources(member, read);
      for (const ir::Value* input : inputs) {
        if (contains(read, input) || contains(loads, {group, input})) continue;
        loads.emplace_back(group, input);
        gain -= bytesOf(input);
      }
    }
  }
  std::vector<ir::Node*>& members = groups_[own].nodes;
  if (gain <= 0 || members.size() < nodes.size() + options_.fewestNodes) return false;
  for (const ir::Node* node : nodes) {
    facts_[node->id()].part = Part::Free;
    facts_[node->id()].group = kNoGroup;
    std::erase(members, node);
  }
  return true;
}

void Groups::leaveToReaders() {
  bool any = true;
  for (int round = 0; any && round < kMostRounds; ++round) {
    any = false;
    for (uint32_t own = 0; own < groups_.size(); ++own) {
      if (groups_[own].nodes.size() <= options_.fewestNodes) continue;
      // By the one value that they need of this group and that is not stored: its number, to keep an order.
      std::map<uint32_t, std::pair<const ir::Value*, std::vector<const ir::Node*>>> together;
      std::vector<const ir::Node*> alone;
      for (const ir::Node* node : groups_[own].nodes) {
        if (readersOf(node, own).empty()) continue;
        Values inputs, needed;
        sources(node, inputs);
        for (const ir::Value* input : inputs) {
          if (input->def() && of(input->def()) == own && !isStored(input, own)) needed.push_back(input);
        }
        if (needed.empty()) alone.push_back(node);
        if (needed.size() != 1) continue;
        together[needed[0]->id()].first = needed[0];
        together[needed[0]->id()].second.push_back(node);
      }
      for (auto& [id, found] : together) any |= tryToLeave(own, found.second, found.first);
      for (const ir::Node* node : alone) any |= tryToLeave(own, {node}, nullptr);
    }
  }
}

}  // namespace saker::lower
