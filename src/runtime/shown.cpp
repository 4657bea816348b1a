#include "runtime/shown.h"

#include <algorithm>
#include <numeric>

#include "ops/operator.h"

namespace saker::runtime {

namespace {

// Values that lie in one memory are in one set.
class Memories {
 public:
  explicit Memories(size_t values) : parent_(values) { std::iota(parent_.begin(), parent_.end(), 0u); }

  uint32_t of(const ir::Value* value) {
    uint32_t at = value->id();
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }
  void join(const ir::Value* a, const ir::Value* b) { parent_[of(a)] = of(b); }

 private:
  std::vector<uint32_t> parent_;
};

// Calls `visit` with each value that an argument is, or has in its list.
template <typename Visit>
void eachValue(const ir::Arg& arg, const Visit& visit) {
  if (arg.isValue()) visit(arg.toValue());
  if (!arg.isList()) return;
  for (const ir::Arg& item : arg.toList()) eachValue(item, visit);
}

// Calls `visit` with each operand whose memory the node writes to, or gives as a result. An operator that gives several
// such results is taken to give each of each: to run too many nodes above is slower, never wrong.
template <typename Visit>
void eachTouched(const ir::Node& node, const Visit& visit) {
  const ops::Operator* op = ops::of(&node);
  if (!op) return;
  bool moves = op->has(ops::kSetsStorage);
  for (size_t i = 0; i < node.args().size(); ++i) {
    bool aliased = std::any_of(op->resultAlias.begin(), op->resultAlias.end(),
                               [&](int8_t argument) { return argument == static_cast<int8_t>(i); });
    if (aliased || moves || (i < 64 && (op->writes >> i & 1))) eachValue(node.arg(i), visit);
  }
}

bool givesAliases(const ops::Operator* op) {
  return op &&
         std::any_of(op->resultAlias.begin(), op->resultAlias.end(), [](int8_t argument) { return argument >= 0; });
}

Memories memoriesOf(const ir::Graph& graph) {
  Memories memories(graph.valueLimit());
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    const ir::Value* first = nullptr;
    bool moves = ops::of(node) && ops::of(node)->has(ops::kSetsStorage);
    eachTouched(*node, [&](const ir::Value* touched) {
      if (first && moves) memories.join(touched, first);
      first = touched;
      if (!givesAliases(ops::of(node))) return;
      for (size_t i = 0; i < node->resultCount(); ++i) memories.join(node->result(i), touched);
    });
  }
  return memories;
}

}  // namespace

bool markShown(ir::Graph& graph) {
  Memories memories = memoriesOf(graph);
  const ir::Node* end = graph.top()->terminator();
  std::vector<bool> escapes(graph.valueLimit());
  if (end) {
    for (const ir::Arg& arg : end->args()) {
      eachValue(arg, [&](const ir::Value* value) { escapes[memories.of(value)] = true; });
    }
  }
  // From the end on, so that a view is known to lead to a result or to a write, or to lead to neither.
  std::vector<bool> led(graph.valueLimit());
  if (end) {
    for (const ir::Arg& arg : end->args()) eachValue(arg, [&](const ir::Value* value) { led[value->id()] = true; });
  }
  bool any = false, grad = false;
  for (ir::Node* node = end ? end->prev() : graph.top()->last(); node; node = node->prev()) {
    grad |= !node->attributes().noGrad;
    bool escaping = false;
    eachTouched(*node, [&](const ir::Value* touched) { escaping |= escapes[memories.of(touched)]; });
    if (!escaping) continue;
    const ops::Operator* op = ops::of(node);
    bool seen = op->writes || op->has(ops::kSetsStorage);
    for (size_t i = 0; i < node->resultCount(); ++i) seen |= led[node->result(i)->id()];
    if (!seen) continue;
    eachTouched(*node, [&](const ir::Value* touched) { led[touched->id()] = true; });
    ir::Attributes known = node->attributes();
    known.shown = any = true;
    graph.setAttributes(node, known);
  }
  return any && grad;
}

std::vector<bool> writtenParameters(const ir::Graph& graph) {
  Memories memories = memoriesOf(graph);
  std::vector<bool> written(graph.valueLimit());
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    const ops::Operator* op = ops::of(node);
    for (size_t i = 0; op && i < std::min<size_t>(node->args().size(), 64); ++i) {
      if (!(op->writes >> i & 1)) continue;
      eachValue(node->arg(i), [&](const ir::Value* value) { written[memories.of(value)] = true; });
    }
  }
  std::vector<bool> out;
  for (const ir::Value* parameter : graph.top()->parameters()) out.push_back(written[memories.of(parameter)]);
  return out;
}

}  // namespace saker::runtime
