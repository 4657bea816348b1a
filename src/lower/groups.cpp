#include "lower/groups.h"

#include <algorithm>

#include "ops/effects.h"

namespace saker::lower {
namespace {

// Elements that a node goes through, and what it reduces. A node with several results may reduce along several ways:
// the first one counts.
struct Extent {
  Int elements = 0;
  Int into = 0;  // elements of what it puts elements into
  std::optional<Space> space;
};

Extent extentOf(const ir::Node* node) {
  Extent extent;
  const ops::Operator* op = ops::of(node);
  if (const ops::PutRule* rule = ops::putRuleOf(op)) {
    ops::Inferred unused;
    ops::Steps steps = rule->steps(ops::Infer(*op, node->region()->graph()->context(), node->args(), unused));
    extent.elements = ir::numel(steps.sizes);
    extent.into = ir::numel(node->result()->tensor()->sizes());
    return extent;
  }
  for (size_t i = 0; i < node->resultCount(); ++i) {
    const ir::TensorType* type = node->result(i)->tensor();
    if (!type) continue;
    if (op->along) {
      ops::Inferred unused;
      ops::Infer arguments(*op, node->region()->graph()->context(), node->args(), unused);
      if (std::optional<ops::Along> along = op->along(arguments, i)) {
        extent.space = spaceOf(*along);
        extent.elements = extent.space->all();
        return extent;
      }
    }
    if (extent.elements.isConst(0)) extent.elements = ir::numel(type->sizes());
  }
  return extent;
}

}  // namespace

Groups::Groups(std::span<ir::Node* const> nodes, const FuseOptions& options, const WriteOrder& order,
               const SymbolOrder& symbols)
    : options_(options), order_(order), symbols_(symbols) {
  if (nodes.empty()) return;
  const ir::Graph& graph = *nodes[0]->region()->graph();
  facts_.resize(graph.nodeLimit());
  readBy_.resize(graph.valueLimit());
  for (ir::Node* node : nodes) {
    Answer answer = partOf(*node, options.toTheBit);
    Facts& facts = facts_[node->id()];
    facts.known = true;
    facts.part = answer.part;
    facts.cheap = answer.cheap;
    // What is filled and then written is one tensor: groups cannot have copies of it.
    bool filled = facts.part == Part::Free && ops::of(node)->cost == ops::Cost::Fill;
    if (filled && order_.isWritten(node->result())) facts.part = Part::Computed;
    facts.reason = std::move(answer.reason);
    place(node);
  }
  sink();
  leaveToReaders();
}

uint32_t Groups::of(const ir::Node* node) const { return has(node) ? facts_[node->id()].group : kNoGroup; }

void Groups::producers(const ir::Node* node, std::vector<const ir::Node*>& found) const {
  for (const ir::Use& use : node->operands()) {
    const ir::Node* def = use.value->def();
    if (!def || !has(def)) continue;
    if (facts_[def->id()].part == Part::Free) {
      producers(def, found);
      for (const ir::Node* earlier : symbols_.before(def)) found.push_back(earlier);
    } else if (std::find(found.begin(), found.end(), def) == found.end()) {
      found.push_back(def);
    }
  }
}

void Groups::readers(const ir::Value* value, std::vector<const ir::Node*>& found) const {
  for (const ir::Use* use = value->firstUse(); use; use = use->next) {
    const ir::Node* user = use->user;
    if (has(user) && facts_[user->id()].part == Part::Free) {
      found.push_back(user);
      for (size_t i = 0; i < user->resultCount(); ++i) readers(user->result(i), found);
    } else {
      found.push_back(user);
    }
  }
}

uint32_t Groups::depthOf(const ir::Node* node) const {
  const Facts& facts = facts_[node->id()];
  return facts.group == kNoGroup ? facts.depth : groups_[facts.group].depth;
}

namespace {

bool isThere(const Int& into) { return !into.isConst(0); }

}  // namespace

bool Groups::fits(const Group& group, const ir::Node* node, std::string* why) const {
  auto no = [&](const char* reason) {
    if (why) *why = node->op()->qualified + " " + reason;
    return false;
  };
  if (group.nodes.size() >= options_.mostNodes) return no("is one node too many");
  bool raises = ops::effectsOf(*node).has(ops::kFailsOnData), writes = ops::writes(*node);
  if ((raises || group.raises) && (writes || group.writes)) return no("may raise, beside what writes");
  if (!agree(group.touches, order_.touches(node))) return no("sees memory that is written in another way");
  Extent extent = extentOf(node);
  if (extent.space) {
    if (group.space && !sameSpace(*group.space, *extent.space)) return no("reduces along other dimensions");
    if (surelyEqual(extent.elements, group.elements)) return true;
    return no("reduces another number of elements");
  }
  if (surelyEqual(extent.elements, group.elements)) return true;
  if (group.space && surelyEqual(extent.elements, group.space->rows())) return true;
  if (isThere(extent.into) && surelyEqual(extent.into, group.elements)) return true;
  if (isThere(group.into) && surelyEqual(extent.elements, group.into)) return true;
  return no("has another number of elements");
}

bool Groups::fits(const Group& a, const Group& b) const {
  if (a.nodes.size() + b.nodes.size() > options_.mostNodes) return false;
  if ((a.raises || b.raises) && (a.writes || b.writes)) return false;
  if (!agree(a.touches, b.touches)) return false;
  if (a.space && b.space && !sameSpace(*a.space, *b.space)) return false;
  if (surelyEqual(a.elements, b.elements)) return true;
  if (a.space && !b.space && surelyEqual(b.elements, a.space->rows())) return true;
  return b.space && !a.space && surelyEqual(a.elements, b.space->rows());
}

void Groups::join(ir::Node* node, uint32_t to) {
  Group& group = groups_[to];
  Extent extent = extentOf(node);
  if (extent.space) group.space = extent.space;
  if (group.nodes.empty()) group.elements = extent.elements;
  if (isThere(extent.into)) group.into = extent.into;
  group.nodes.push_back(node);
  facts_[node->id()].group = to;
  std::span<const WriteOrder::Touch> touches = order_.touches(node);
  group.touches.insert(group.touches.end(), touches.begin(), touches.end());
  group.writes |= ops::writes(*node);
  group.raises |= ops::effectsOf(*node).has(ops::kFailsOnData);
  for (const ir::Use& use : node->operands()) {
    std::vector<uint32_t>& groups = readBy_[use.value->id()];
    if (groups.empty() || groups.back() != to) groups.push_back(to);
  }
}

void Groups::merge(uint32_t into, uint32_t from) {
  Group &to = groups_[into], &gone = groups_[from];
  if (isThere(gone.into)) to.into = gone.into;
  if (!to.space && gone.space) {
    to.space = gone.space;
    to.elements = gone.elements;
  }
  for (ir::Node* node : gone.nodes) facts_[node->id()].group = into;
  std::vector<ir::Node*> both;
  both.reserve(to.nodes.size() + gone.nodes.size());
  both.insert(both.end(), to.nodes.begin(), to.nodes.end());
  both.insert(both.end(), gone.nodes.begin(), gone.nodes.end());
  to.nodes = std::move(both);
  to.touches.insert(to.touches.end(), gone.touches.begin(), gone.touches.end());
  to.writes |= gone.writes;
  to.raises |= gone.raises;
  if (to.ended.empty()) to.ended = gone.ended;
  gone.nodes.clear();
  gone.gone = true;
}

// Is `value` the tensor that is written, or a view of it that the group has a copy of?
bool Groups::seesThrough(const ir::Value* value, const ir::Value* written) const {
  while (value != written) {
    const ir::Node* def = value->def();
    if (!def || !has(def) || facts_[def->id()].part != Part::Free || def->operandCount() == 0) return false;
    value = def->operand(0);
  }
  return true;
}

// In one group, memory that is written is seen as one tensor, and as views of it.
bool Groups::agree(std::span<const WriteOrder::Touch> a, std::span<const WriteOrder::Touch> b) const {
  for (const WriteOrder::Touch& one : a) {
    for (const WriteOrder::Touch& other : b) {
      if (one.memory != other.memory || (!one.written && !other.written)) continue;
      bool same = one.written && other.written ? one.value == other.value
                  : one.written                ? seesThrough(other.value, one.value)
                                               : seesThrough(one.value, other.value);
      if (!same) return false;
    }
  }
  return true;
}

// A group of the same depth that reads a value which this node reads, all of it.
uint32_t Groups::sibling(const ir::Node* node, uint32_t depth) const {
  Int elements = extentOf(node).elements;
  for (const ir::Use& use : node->operands()) {
    if (!use.value->tensor() || !surelyEqual(ir::numel(use.value->tensor()->sizes()), elements)) continue;
    const std::vector<uint32_t>& groups = readBy_[use.value->id()];
    constexpr size_t kLooked = 4;
    for (size_t i = groups.size(); i-- > 0 && groups.size() - i <= kLooked;) {
      const Group& group = groups_[groups[i]];
      if (!group.gone && group.depth == depth && fits(group, node, nullptr)) return groups[i];
    }
  }
  return kNoGroup;
}

void Groups::place(ir::Node* node) {
  Facts& facts = facts_[node->id()];
  std::vector<const ir::Node*> made;
  producers(node, made);
  for (const ir::Node* earlier : order_.before(node)) {
    if (std::find(made.begin(), made.end(), earlier) == made.end()) made.push_back(earlier);
  }
  for (const ir::Node* earlier : symbols_.before(node)) {
    if (std::find(made.begin(), made.end(), earlier) == made.end()) made.push_back(earlier);
  }
  ops::Effects effects = ops::effectsOf(*node);
  // What may raise stays in order, so that the first error is the one that is seen.
  bool ordered = facts.part != Part::Free && (effects.ordered() || effects.has(ops::kFailsOnData));
  if (ordered && lastOrdered_) made.push_back(lastOrdered_);
  uint32_t depth = 0;
  for (const ir::Node* producer : made) depth = std::max(depth, depthOf(producer));
  facts.depth = depth;
  if (facts.part == Part::Free) return;
  if (ordered) lastOrdered_ = node;
  if (facts.part == Part::Library) {
    facts.depth = depth + 1;
    for (const ir::Node* producer : made) {
      uint32_t group = facts_[producer->id()].group;
      if (group != kNoGroup && groups_[group].ended.empty()) groups_[group].ended = facts.reason;
    }
    return;
  }
  // Everything of the largest depth that it reads must be one group with it.
  uint32_t joined = kNoGroup;
  bool possible = true;
  std::string why;
  for (const ir::Node* producer : made) {
    if (depthOf(producer) != depth || !possible) continue;
    uint32_t group = facts_[producer->id()].group;
    if (group == kNoGroup || !fits(groups_[group], node, &why)) {
      possible = false;
      if (group != kNoGroup && groups_[group].ended.empty()) groups_[group].ended = why;
    } else if (joined == kNoGroup) {
      joined = group;
    } else if (group != joined) {
      if (fits(groups_[joined], groups_[group])) {
        merge(joined, group);
      } else {
        possible = false;
      }
    }
  }
  if (possible && joined != kNoGroup && fits(groups_[joined], node, &why)) return join(node, joined);
  uint32_t sister = sibling(node, depth + 1);
  if (sister != kNoGroup) return join(node, sister);
  groups_.emplace_back().depth = depth + 1;
  join(node, static_cast<uint32_t>(groups_.size() - 1));
}

// A group that only one other group reads becomes part of that one: nothing waits for it elsewhere.
void Groups::sink() {
  std::vector<const ir::Node*> found;
  for (uint32_t g = static_cast<uint32_t>(groups_.size()); g-- > 0;) {
    if (groups_[g].gone) continue;
    uint32_t reader = kNoGroup;
    bool one = true;
    auto visit = [&](const ir::Node* user) {
      if (has(user) && facts_[user->id()].part == Part::Free) return;
      uint32_t group = of(user);
      if (group == g) return;
      one &= group != kNoGroup && (reader == kNoGroup || reader == group);
      reader = group;
    };
    for (const ir::Node* node : groups_[g].nodes) {
      one &= !ops::effectsOf(*node).has(ops::kFailsOnData);
      for (const ir::Node* later : order_.behind(node)) visit(later);
      for (size_t i = 0; one && i < node->resultCount(); ++i) {
        found.clear();
        readers(node->result(i), found);
        for (const ir::Node* user : found) visit(user);
      }
    }
    if (one && reader != kNoGroup && fits(groups_[reader], groups_[g])) {
      groups_[g].ended.clear();
      merge(reader, g);
    }
  }
}

}  // namespace saker::lower
