#include "lower/write_order.h"

#include <algorithm>

#include "ops/effects.h"
#include "passes/memory.h"

namespace saker::lower {
namespace {

using ir::Node;
using ir::Value;

// Of one memory: who touched it since it was written last.
struct History {
  const Node* written = nullptr;
  std::vector<const Node*> read;
  bool any = false;  // a write, ever
};

template <typename F>
void eachRead(const Node* node, const F& f) {
  for (const ir::Use& use : node->operands()) f(use.value);
  for (const ir::Region* body : node->regions()) {
    for (const Node* inner = body->first(); inner; inner = inner->next()) eachRead(inner, f);
  }
}

// Nothing of what lies in memory is read by making a view. What asks for data costs as little, and reads.
bool onlyViews(const Node& node) {
  const ops::Operator* op = ops::of(&node);
  constexpr uint32_t looks = ops::kDataDependent | ops::kEffect | ops::kFailsOnData;
  return op && !op->writes && op->cost == ops::Cost::View && !op->has(ops::kMayAlias) && !(op->traits & looks);
}

}  // namespace

WriteOrder::WriteOrder(std::span<ir::Node* const> nodes, const passes::Memory& memory) {
  std::unordered_map<uint32_t, History> histories;
  // What may raise comes behind what was written before it, and before what is written behind it.
  const Node* raising = nullptr;
  std::vector<const Node*> writing;
  for (const Node* node : nodes) {
    Entry& entry = entries_[node];
    if (onlyViews(*node)) continue;
    auto touch = [&](const Value* value, bool written) {
      if (!value->tensor()) return;
      uint32_t known = memory.classOf(value);
      for (Touch& each : entry.touches) {
        if (each.value == value) return void(each.written |= written);
      }
      entry.touches.push_back({known, value, written});
    };
    ops::eachWritten(*node, [&](const Value* value) { touch(value, true); });
    eachRead(node, [&](const Value* value) { touch(value, false); });
    bool writes = false;
    for (const Touch& each : entry.touches) {
      History& history = histories[each.memory];
      if (history.written) order(history.written, node);
      if (!each.written) continue;
      writes = history.any = true;
      for (const Node* reader : history.read) order(reader, node);
    }
    for (const Touch& each : entry.touches) {
      History& history = histories[each.memory];
      if (each.written) {
        history.written = node;
        history.read.clear();
      } else if (history.written != node && (history.read.empty() || history.read.back() != node)) {
        history.read.push_back(node);
      }
    }
    ops::Effects effects = ops::effectsOf(*node);
    if (writes && raising) order(raising, node);
    if (effects.has(ops::kFailsOnData) || effects.has(ops::kEffect)) {
      for (const Node* writer : writing) order(writer, node);
      writing.clear();
      raising = node;
    }
    if (writes) writing.push_back(node);
  }
  for (const Node* node : nodes) {
    for (size_t i = 0; i < node->resultCount(); ++i) {
      const Value* result = node->result(i);
      auto history = result->tensor() ? histories.find(memory.classOf(result)) : histories.end();
      if (history == histories.end() || !history->second.any) continue;
      written_.insert(result);
      // Who makes it is one of those that write: what is written to a view of it later has another place.
      if (!onlyViews(*node) && !ops::writes(*node))
        entries_[node].touches.push_back({memory.classOf(result), result, true});
    }
  }
}

const WriteOrder::Entry& WriteOrder::of(const ir::Node* node) const {
  static const Entry none;
  auto found = entries_.find(node);
  return found == entries_.end() ? none : found->second;
}

void WriteOrder::order(const Node* first, const Node* second) {
  if (first == second) return;
  std::vector<const Node*>& before = entries_[second].before;
  if (std::find(before.begin(), before.end(), first) != before.end()) return;
  before.push_back(first);
  entries_[first].behind.push_back(second);
}

}  // namespace saker::lower
