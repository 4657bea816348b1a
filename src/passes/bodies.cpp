#include "passes/bodies.h"

#include <algorithm>
#include <unordered_set>

#include "ir/clone.h"
#include "ir/each_operand.h"
#include "ir/each_value.h"
#include "ops/control_flow.h"
#include "ops/effects.h"
#include "ops/view_inverse.h"

namespace saker::passes {

using ir::Arg;
using ir::Node;
using ir::Value;

bool hasBodies(const ir::Graph& graph) {
  for (const Node* node = graph.top()->first(); node; node = node->next()) {
    if (!node->regions().empty()) return true;
  }
  return false;
}

bool hasBranchesOrLoops(const ir::Graph& graph) {
  for (const Node* node = graph.top()->first(); node; node = node->next()) {
    if (!node->regions().empty() && !ops::isCall(*node)) return true;
  }
  return false;
}

bool isInside(const Value* value, const Node* node) {
  for (const ir::Region* region = value->region(); region && region->owner(); region = region->owner()->region()) {
    if (region->owner() == node) return true;
  }
  return false;
}

std::vector<Value*> outerValues(const ir::Region& body) {
  std::vector<Value*> found;
  std::unordered_set<const Value*> seen;
  auto isWithin = [&](const Value* value) {
    const ir::Region* region = value->region();
    while (region && region != &body) region = region->owner() ? region->owner()->region() : nullptr;
    return region == &body;
  };
  for (const Node* node = body.first(); node; node = node->next()) {
    ir::eachOperand(*node, [&](Value* value) {
      if (!isWithin(value) && seen.insert(value).second) found.push_back(value);
    });
  }
  return found;
}

std::vector<std::unique_ptr<ir::Graph>> closed(const Node& node, const ir::Graph& graph, std::vector<Value*>& outer) {
  outer.clear();
  for (const ir::Region* body : node.regions()) {
    for (Value* value : outerValues(*body)) {
      if (std::find(outer.begin(), outer.end(), value) == outer.end()) outer.push_back(value);
    }
  }
  std::vector<std::unique_ptr<ir::Graph>> graphs;
  for (const ir::Region* body : node.regions()) {
    auto made = std::make_unique<ir::Graph>(graph.sharedContext(), "body");
    std::vector<Value*> values(graph.valueLimit());
    for (const Value* parameter : body->parameters()) {
      values[parameter->id()] = made->addParameter(made->top(), parameter->type(), parameter->name());
    }
    for (const Value* value : outer) values[value->id()] = made->addParameter(made->top(), value->type());
    ir::copyNodes(graph, *body, *made, made->top(), std::move(values));
    graphs.push_back(std::move(made));
  }
  return graphs;
}

// Marks what values of a body that are marked are computed from, and whatever else is never left out.
static void markNeeded(const ir::Region& body, std::vector<bool>& needed) {
  for (const Node* node = body.last()->prev(); node; node = node->prev()) {
    ops::Effects effects = ops::effectsOf(*node);
    bool stays = !effects.removable() || effects.has(ops::kFailsOnData);
    for (size_t i = 0; i < node->resultCount(); ++i) stays = stays || needed[node->result(i)->id()];
    if (stays) ir::eachOperand(*node, [&](const Value* value) { needed[value->id()] = true; });
  }
}

void markCarried(const ir::Region& body, std::vector<bool>& carried, std::vector<bool>& needed) {
  std::vector<bool> marked(carried.size());
  for (bool changed = true; changed;) {
    markNeeded(body, needed);
    changed = false;
    for (size_t i = 0; i < carried.size(); ++i) {
      if (marked[i] || !(carried[i] || needed[body.parameters()[i]->id()])) continue;
      carried[i] = marked[i] = changed = true;
      ir::eachValue(body.terminator()->arg(i), [&](const Value* value) { needed[value->id()] = true; });
    }
  }
}

Node* rebuild(ir::Graph& graph, Node* node, std::span<const Arg> args, std::span<const ir::Type* const> results,
              std::span<const size_t> from, const std::vector<bool>& kept) {
  Node* made = graph.create(node->op(), args, results, 0, node->origin());
  graph.insertBefore(node->region(), node, made);
  for (ir::Region* body : node->regions()) {
    ir::Region* copy = graph.addRegion(made);
    for (size_t i = 0; i < body->parameters().size(); ++i) {
      Value* parameter = body->parameters()[i];
      if (i < kept.size() && !kept[i]) continue;
      graph.replaceAllUses(parameter, graph.addParameter(copy, parameter->type(), parameter->name()));
    }
    while (Node* inner = body->first()) {
      graph.unlink(inner);
      graph.append(copy, inner);
    }
  }
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] >= node->resultCount()) continue;
    Value* old = node->result(from[i]);
    graph.replaceAllUses(old, made->result(i));
    if (!old->name().empty()) graph.setName(made->result(i), old->name());
  }
  graph.erase(node);
  return made;
}

namespace {

Value* asValue(const Arg& arg) { return arg.isValue() ? arg.toValue() : nullptr; }

void forwardBranch(ir::Graph& graph, Node* node) {
  std::span<const Arg> given = ops::passedArguments(*node);
  for (ir::Region* body : node->regions()) {
    std::span<Value* const> parameters = ops::passedParameters(*body);
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i].isValue()) graph.replaceAllUses(parameters[i], given[i].toValue());
    }
  }
  for (size_t i = 0; i < node->resultCount(); ++i) {
    Value* same = nullptr;
    bool all = true;
    for (const ir::Region* body : node->regions()) {
      Value* returned = asValue(ops::returnedArguments(*body)[i]);
      if (returned) returned = sameTensor(returned);
      all &= returned && (!same || same == returned) && !isInside(returned, node);
      same = returned;
    }
    if (all && same) graph.replaceAllUses(node->result(i), same);
  }
}

void forwardLoop(ir::Graph& graph, Node* node) {
  const ir::Region& body = *node->regions()[0];
  for (size_t i = 0; i < node->resultCount(); ++i) {
    Value* given = asValue(ops::passedArguments(*node)[i]);
    Value* returned = asValue(ops::returnedArguments(body)[i]);
    Value* parameter = ops::passedParameters(body)[i];
    if (!given || !returned) continue;
    returned = sameTensor(returned);
    if (returned != parameter && returned != given) continue;
    graph.replaceAllUses(parameter, given);
    graph.replaceAllUses(node->result(i), given);
  }
}

}  // namespace

Value* sameTensor(Value* value) {
  while (const Node* def = value->def()) {
    bool itself = ops::of(def) && (ops::of(def)->writes || ops::sharing(*def, value->index()) == ops::Sharing::Same);
    size_t arguments = 0;  // of a list, it is not known which
    ops::eachShared(*def, [&](const Value* result, const Value*, bool) { arguments += result == value; });
    Value* before = itself && arguments == 1 ? ops::sharedArgument(value) : nullptr;
    // An operator that gave its argument other sizes or strides returns it as it is now.
    if (!before || before->type() != value->type()) break;
    value = before;
  }
  return value;
}

void forwardInvariants(ir::Graph& graph, Node* node) {
  if (ops::isIf(*node) || ops::isCall(*node)) forwardBranch(graph, node);
  if (ops::isLoop(*node)) forwardLoop(graph, node);
}

void forwardInvariants(ir::Graph& graph, ir::Region* region) {
  for (Node* node = region->first(); node; node = node->next()) {
    for (ir::Region* body : node->regions()) forwardInvariants(graph, body);
    forwardInvariants(graph, node);
  }
}

void eachBase(Value* value, const Node* node, const std::function<void(Value*)>& f) {
  std::unordered_set<const Value*> seen;
  std::vector<Value*> work = {value};
  auto follow = [&](Value* from) {
    if (from->tensor()) work.push_back(from);
  };
  while (!work.empty()) {
    Value* at = work.back();
    work.pop_back();
    if (!seen.insert(at).second) continue;
    if (!isInside(at, node)) {
      f(at);
      continue;
    }
    const Node* def = at->def();
    const Node* bound = def ? def : at->region()->owner();
    if (!bound->regions().empty()) {
      ops::eachEdge(*bound, [&](const Arg& from, const Value* to) {
        if (to == at) ir::eachValue(from, follow);
      });
      if (!ops::of(bound)) {  // any of what it gets
        for (const ir::Use& use : bound->operands()) follow(use.value);
      }
    }
    bool fresh = true;
    if (def) {
      ops::eachShared(*def, [&](const Value* result, Value* argument, bool) {
        if (result != at || !argument) return;
        fresh = false;
        follow(argument);
      });
    }
    if (fresh) f(at);
  }
}

}  // namespace saker::passes
