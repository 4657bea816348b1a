#include "lower/fuse.h"

#include <algorithm>
#include <unordered_map>

#include "lower/empty_results.h"
#include "lower/groups.h"
#include "lower/lower.h"
#include "lower/split_lists.h"
#include "lower/symbol_order.h"
#include "lower/write_order.h"
#include "ops/effects.h"
#include "ops/group.h"
#include "passes/inline.h"
#include "passes/memory.h"

namespace saker::lower {
namespace {

using ir::Node;
using ir::Value;

// Inputs that share memory are views of one, and what is not in the table ends a segment.
constexpr passes::Memory::Assumptions kRecorded = {false, passes::Memory::Assumptions::Unknown::Nothing};

WriteOrder orderOf(const ir::Graph& graph, std::span<Node* const> nodes) {
  bool writes = std::any_of(nodes.begin(), nodes.end(), [](const Node* node) { return ops::effectsOf(*node).writes; });
  return writes ? WriteOrder(nodes, passes::Memory(graph, kRecorded)) : WriteOrder();
}

// Nodes between two of which it is not known what they do: nothing is moved out of here.
class Segment {
 public:
  Segment(ir::Graph& graph, std::vector<Node*> nodes, Node* end, const FuseOptions& options)
      : graph_(graph),
        nodes_(std::move(nodes)),
        end_(end),
        fewest_(options.fewestNodes),
        writes_(orderOf(graph, nodes_)),
        symbols_(nodes_),
        groups_(nodes_, options, writes_, symbols_) {}

  void run(Fusion& fusion) {
    sort();
    for (uint32_t group : order_) make(group, fusion);
  }

 private:
  bool isMade(uint32_t group) const {
    return group != Groups::kNoGroup && groups_.all()[group].nodes.size() >= fewest_;
  }

  // ---- order ----

  // What a group reads comes before all of it, and all of it before what reads it.
  void sort() {
    members_.resize(groups_.all().size());
    std::unordered_map<const Node*, size_t> position;
    for (Node* node : nodes_) {
      position.emplace(node, position.size());
      if (isMade(groups_.of(node))) members_[groups_.of(node)].push_back(node);
    }
    std::vector<uint8_t> state(nodes_.size());  // 1: waits for what it reads, 2: is placed
    std::vector<bool> placed(groups_.all().size());
    std::vector<Node*> stack, last;
    const Node* ordered = nullptr;
    std::vector<const Node*> before(nodes_.size());
    for (Node* node : nodes_) {
      ops::Effects effects = ops::effectsOf(*node);
      if (groups_.part(node) == Part::Free || !(effects.ordered() || effects.has(ops::kFailsOnData))) continue;
      before[position.at(node)] = ordered;
      ordered = node;
    }
    auto push = [&](const Node* node) {
      auto known = position.find(node);
      if (known != position.end() && state[known->second] != 2) stack.push_back(const_cast<Node*>(node));
    };
    for (Node* root : nodes_) {
      // A group waits until its last node would come.
      uint32_t own = groups_.of(root);
      if (isMade(own) && members_[own].back() != root) continue;
      push(root);
      while (!stack.empty()) {
        Node* node = stack.back();
        size_t at = position.at(node);
        if (state[at] == 2) {
          stack.pop_back();
          continue;
        }
        uint32_t group = groups_.of(node);
        std::span<Node* const> unit = isMade(group) ? std::span<Node* const>(members_[group]) : std::span(&node, 1);
        if (state[at] == 0) {
          for (Node* member : unit) state[position.at(member)] = 1;
          for (Node* member : unit) {
            for (const ir::Use& use : member->operands()) pushReads(use.value, group, push, position);
            forBodies(member, [&](const Value* value) { pushReads(value, group, push, position); });
            // Members of its own group are placed with it: one that were pushed would count as ready.
            auto pushEarlier = [&](const Node* earlier) {
              if (!isMade(group) || groups_.of(earlier) != group) push(earlier);
            };
            if (const Node* earlier = before[position.at(member)]) pushEarlier(earlier);
            for (const Node* earlier : symbols_.before(member)) pushEarlier(earlier);
            for (const Node* earlier : writes_.before(member)) pushEarlier(earlier);
          }
          continue;
        }
        stack.pop_back();
        for (Node* member : unit) {
          state[position.at(member)] = 2;
          if (!isMade(group)) graph_.moveBefore(member, end_);
        }
        if (isMade(group) && !placed[group]) {
          placed[group] = true;
          order_.push_back(group);
          // The place where the group's node goes.
          for (Node* member : members_[group]) graph_.moveBefore(member, end_);
        }
      }
    }
  }

  template <typename Push, typename Position>
  void pushReads(const Value* value, uint32_t group, Push& push, const Position& position) const {
    const Node* def = value->def();
    if (!def || (isMade(group) && groups_.of(def) == group)) return;
    // A free node inside of a group is a copy: what counts is what it reads.
    bool isFree = isMade(group) && position.count(def) && groups_.part(def) == Part::Free;
    if (!isFree) return push(def);
    for (const Node* earlier : symbols_.before(def)) push(earlier);
    for (const ir::Use& use : def->operands()) pushReads(use.value, group, push, position);
  }

  template <typename F>
  static void forBodies(const Node* node, F&& f) {
    for (const ir::Region* body : node->regions()) {
      for (const Node* inner = body->first(); inner; inner = inner->next()) {
        for (const ir::Use& use : inner->operands()) f(use.value);
        forBodies(inner, f);
      }
    }
  }

  // ---- making nodes ----

  void make(uint32_t group, Fusion& fusion) {
    const std::vector<Node*>& members = members_[group];
    current_ = group;
    copied_.clear();
    // What it reads: through free nodes, whose copies stand in the body.
    std::vector<Value*> operands;
    bool writes = false;
    for (const Node* member : members) {
      ops::eachWritten(*member, [&](Value* value) {
        writes = true;
        bool inside = value->def() && isInside(value->def());
        if (!inside && std::find(operands.begin(), operands.end(), value) == operands.end()) operands.push_back(value);
      });
    }
    for (const Node* member : members) {
      for (const ir::Use& use : member->operands()) findOperands(use.value, operands);
    }
    std::vector<Value*> results;
    for (const Node* member : members) {
      for (size_t i = 0; i < member->resultCount(); ++i) {
        if (isReadOutside(member->result(i))) results.push_back(member->result(i));
      }
    }
    if (results.empty() && !writes) return;
    std::vector<ir::Arg> args;
    for (Value* operand : operands) args.push_back(ir::Arg::value(operand));
    std::vector<const ir::Type*> types;
    for (Value* result : results) types.push_back(result->type());
    Node* node = graph_.create(ops::find("saker::fused"), args, types, 1, members.back()->location());
    graph_.insertBefore(members.back()->region(), members.back()->next(), node);
    ir::Region* body = node->regions()[0];
    std::unordered_map<const Value*, Value*> known;
    for (Value* operand : operands) known.emplace(operand, graph_.addParameter(body, operand->type()));
    std::vector<std::vector<Node*>> outside;
    for (const Value* result : results) outside.push_back(readersOutside(result));
    std::vector<ir::Arg> returned;
    for (Node* member : members) {
      for (size_t i = 0; i < member->operandCount(); ++i) {
        graph_.setOperand(member, i, inBody(member->operand(i), known, body));
      }
      graph_.unlink(member);
      graph_.append(body, member);
    }
    for (size_t i = 0; i < results.size(); ++i) {
      returned.push_back(ir::Arg::value(results[i]));
      for (Node* reader : outside[i]) replaceIn(reader, results[i], node->result(i));
    }
    graph_.appendReturn(body, returned);
    eraseUnread();
    Lowered lowered = lower(*node);
    if (lowered.ok()) {
      fusion.groups.push_back({node, groups_.all()[group].ended});
      return;
    }
    fusion.refused.push_back(lowered.reason);
    passes::inlineRegion(graph_, node, body, args);
  }

  bool isInside(const Node* node) const { return groups_.of(node) == current_; }
  bool isCopied(const Node* def) const { return groups_.has(def) && groups_.part(def) == Part::Free; }

  void findOperands(Value* value, std::vector<Value*>& operands) {
    Node* def = value->def();
    if (def && isInside(def)) return;
    if (std::find(operands.begin(), operands.end(), value) != operands.end()) return;
    if (def && isCopied(def)) {
      if (std::find(copied_.begin(), copied_.end(), def) == copied_.end()) copied_.push_back(def);
      for (const ir::Use& use : def->operands()) findOperands(use.value, operands);
      return;
    }
    operands.push_back(value);
  }

  // Not where only views of it are outside, which nobody reads there.
  bool isReadOutside(const Value* value) const {
    for (const ir::Use* use = value->firstUse(); use; use = use->next) {
      if (isInside(use->user)) continue;
      if (!isCopied(use->user)) return true;
      for (size_t i = 0; i < use->user->resultCount(); ++i) {
        if (isReadOutside(use->user->result(i))) return true;
      }
    }
    return false;
  }

  std::vector<Node*> readersOutside(const Value* value) const {
    std::vector<Node*> readers;
    for (const ir::Use* use = value->firstUse(); use; use = use->next) {
      if (!isInside(use->user)) readers.push_back(use->user);
    }
    return readers;
  }

  void replaceIn(Node* reader, const Value* value, Value* by) {
    for (size_t i = 0; i < reader->operandCount(); ++i) {
      if (reader->operand(i) == value) graph_.setOperand(reader, i, by);
    }
  }

  void eraseUnread() {
    for (bool any = true; any;) {
      any = false;
      for (Node*& node : copied_) {
        if (!node || node->hasUsedResults()) continue;
        graph_.erase(node);
        node = nullptr;
        any = true;
      }
    }
  }

  Value* inBody(Value* value, std::unordered_map<const Value*, Value*>& known, ir::Region* body) {
    Node* def = value->def();
    if (def && isInside(def)) return value;
    auto found = known.find(value);
    if (found != known.end()) return found->second;
    std::vector<const ir::Type*> types;
    for (size_t i = 0; i < def->resultCount(); ++i) types.push_back(def->result(i)->type());
    Node* copy = graph_.create(def->op(), def->args(), types, 0, def->origin());
    for (size_t i = 0; i < copy->operandCount(); ++i) {
      graph_.setOperand(copy, i, inBody(copy->operand(i), known, body));
    }
    graph_.append(body, copy);
    for (size_t i = 0; i < def->resultCount(); ++i) known.emplace(def->result(i), copy->result(i));
    return copy->result(value->index());
  }

  ir::Graph& graph_;
  std::vector<Node*> nodes_;
  Node* end_;
  size_t fewest_;
  WriteOrder writes_;
  SymbolOrder symbols_;
  Groups groups_;
  std::vector<std::vector<Node*>> members_;  // by group, in order
  std::vector<uint32_t> order_;              // groups
  uint32_t current_ = Groups::kNoGroup;      // the group that is made
  std::vector<Node*> copied_;                // free nodes of which it has copies, readers first
};

void fuseRegion(ir::Graph& graph, ir::Region* region, const FuseOptions& options, Fusion& fusion) {
  std::vector<Node*> nodes;
  for (Node* node = region->first(); node;) {
    Node* next = node->next();
    ops::Effects effects = node->isReturn() ? ops::Effects() : ops::effectsOf(*node);
    if (ops::isGroup(*node)) {
      nodes.push_back(node);
    } else {
      for (ir::Region* body : node->regions()) fuseRegion(graph, body, options, fusion);
      bool apart = effects.unknown || effects.has(ops::kSetsStorage) || (effects.writes && !node->regions().empty());
      if (node->isReturn() || apart) {
        Segment(graph, std::move(nodes), node, options).run(fusion);
        nodes.clear();
      } else {
        nodes.push_back(node);
      }
    }
    node = next;
  }
}

// What writes to a tensor gives that tensor: one name for it is enough.
void nameWrittenOnce(ir::Graph& graph, const ir::Region* region) {
  for (const Node* node = region->first(); node; node = node->next()) {
    for (const ir::Region* body : node->regions()) nameWrittenOnce(graph, body);
    const ops::Operator* op = ops::of(node);
    if (!op || op->variant != ops::Variant::Inplace || op->cost == ops::Cost::View || node->resultCount() != 1)
      continue;
    if (op->has(ops::kSetsStorage) || !node->arg(0).isValue()) continue;
    Value* written = node->arg(0).toValue();
    if (written->type() == node->result()->type()) graph.replaceAllUses(node->result(), written);
  }
}

}  // namespace

Fusion fuse(ir::Graph& graph, const FuseOptions& options) {
  Fusion fusion;
  splitLists(graph);
  takeEmptyResultsApart(graph);
  nameWrittenOnce(graph, graph.top());
  fuseRegion(graph, graph.top(), options, fusion);
  return fusion;
}

}  // namespace saker::lower
