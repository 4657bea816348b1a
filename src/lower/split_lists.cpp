#include "lower/split_lists.h"

#include <algorithm>

#include "ops/builder.h"
#include "ops/infer.h"
#include "ops/operator.h"

namespace saker::lower {
namespace {

using ir::Arg;
using ir::Node;
using ir::Value;

const ops::Operator* itemOf(const Node& node) {
  const ops::Operator* op = ops::of(&node);
  return op && op->item ? op->item() : nullptr;
}

bool onCpu(const Node& node) {
  return std::all_of(node.operands().begin(), node.operands().end(), [](const ir::Use& use) {
    return use.value->tensor() && use.value->tensor()->device.type == ir::DeviceType::CPU;
  });
}

bool computesElements(const Node* node) {
  const ops::Operator* op = node->isReturn() ? nullptr : ops::of(node);
  return op && (op->item || op->element || op->variant == ops::Variant::Inplace);
}

// Is there another operator that works element by element on one of its tensors? Alone, one call is less than many.
bool hasCompany(const Node& node) {
  auto others = [&](const Value* value) {
    if (value->def() && value->def() != &node && computesElements(value->def())) return true;
    for (const ir::Use* use = value->firstUse(); use; use = use->next) {
      if (use->user != &node && computesElements(use->user)) return true;
    }
    return false;
  };
  for (const ir::Use& use : node.operands()) {
    if (others(use.value)) return true;
  }
  for (size_t i = 0; i < node.resultCount(); ++i) {
    if (others(node.result(i))) return true;
  }
  return false;
}

// The arguments of the operator of item `i`: by name where all names are known to it, else in order; then defaults.
bool argumentsOf(const Node& node, const ops::Operator& item, size_t i, SmallVec<Arg, 8>& args) {
  const std::vector<ir::SchemaArgument>& from = ops::of(&node)->parsed.arguments;
  const std::vector<ir::SchemaArgument>& to = item.parsed.arguments;
  bool named = std::all_of(from.begin(), from.end(),
                           [&](const ir::SchemaArgument& each) { return item.parsed.indexOf(each.name).has_value(); });
  for (size_t k = 0; k < to.size(); ++k) {
    std::optional<size_t> place = named ? ops::of(&node)->parsed.indexOf(to[k].name) : std::optional(k);
    if (place && *place < node.args().size()) {
      Arg arg = node.arg(*place);
      args.push_back(arg.isList() ? arg.toList()[i] : arg);
    } else if (to[k].defaultValue) {
      args.push_back(*to[k].defaultValue);
    } else {
      return false;
    }
  }
  return named || node.args().size() <= to.size();
}

bool trySplit(ir::Graph& graph, Node* node) {
  const ops::Operator* item = itemOf(*node);
  if (!item || !onCpu(*node) || !hasCompany(*node)) return false;
  size_t count = node->arg(0).isList() ? node->arg(0).toList().size() : 0;
  bool byValue = node->resultCount() > 0;
  if (count == 0 || (byValue && node->resultCount() != count)) return false;
  ops::Builder build(graph, node->region(), node, node->origin());
  std::vector<Node*> made;
  for (size_t i = 0; i < count; ++i) {
    SmallVec<Arg, 8> args;
    Node* one = argumentsOf(*node, *item, i, args) ? build.tryCall(*item, args) : nullptr;
    bool same = one && one->resultCount() == 1 && (!byValue || one->result()->type() == node->result(i)->type());
    if (one) made.push_back(one);
    if (same) continue;
    for (Node* each : made) graph.erase(each);
    return false;
  }
  for (size_t i = 0; byValue && i < count; ++i) graph.replaceAllUses(node->result(i), made[i]->result());
  graph.erase(node);
  return true;
}

void splitIn(ir::Graph& graph, ir::Region* region) {
  for (Node* node = region->first(); node;) {
    Node* next = node->next();
    for (ir::Region* body : node->regions()) splitIn(graph, body);
    trySplit(graph, node);
    node = next;
  }
}

}  // namespace

void splitLists(ir::Graph& graph) { splitIn(graph, graph.top()); }

}  // namespace saker::lower
