#include "aot/stage_graph.h"

#include <algorithm>

#include "ir/clone.h"
#include "ops/effects.h"
#include "passes/bodies.h"

namespace saker::aot {

namespace {

// What a value is computed from.
class Slice {
 public:
  explicit Slice(const ir::Graph& graph) : seen_(graph.valueLimit()) {}

  void add(const ir::Value* value) {
    enter(value);
    while (!work_.empty()) {
      const ir::Node* node = work_.back();
      work_.pop_back();
      addOperands(*node);
    }
  }
  void add(const ir::Node& node) {
    for (size_t i = 0; i < node.resultCount(); ++i) seen_[node.result(i)->id()] = true;
    extra_.push_back(&node);
    for (const ir::Use& use : node.operands()) add(use.value);
  }
  bool has(const ir::Value* value) const { return seen_[value->id()]; }
  bool has(const ir::Node& node) const {
    for (size_t i = 0; i < node.resultCount(); ++i) {
      if (has(node.result(i))) return true;
    }
    return node.resultCount() == 0 && std::find(extra_.begin(), extra_.end(), &node) != extra_.end();
  }

 private:
  void enter(const ir::Value* value) {
    if (seen_[value->id()]) return;
    seen_[value->id()] = true;
    if (value->def()) work_.push_back(value->def());
  }
  void addOperands(const ir::Node& node) {
    for (const ir::Use& use : node.operands()) enter(use.value);
    for (const ir::Region* body : node.regions()) {
      for (const ir::Value* value : passes::outerValues(*body)) enter(value);
    }
  }

  std::vector<bool> seen_;
  std::vector<const ir::Node*> work_, extra_;
};

// Something that nobody reads the result of, and that is seen all the same: of the stage that leads to it.
bool isSeen(const ir::Node& node) {
  return !node.isReturn() && !node.hasUsedResults() && !ops::effectsOf(node).removable();
}

bool leadsTo(const ir::Graph& graph, const ir::Node& node, size_t saved, const Joint::Stage& stage) {
  Slice from(graph);
  from.add(node);
  std::span<ir::Value* const> parameters = graph.top()->parameters();
  for (size_t tangent : stage.tangents) {
    if (from.has(parameters[saved + tangent])) return true;
  }
  bool none = true;
  for (const ir::Value* tangent : parameters.subspan(saved)) none &= !from.has(tangent);
  return none;
}

}  // namespace

std::unique_ptr<ir::Graph> stageOf(const ir::Graph& backward, size_t saved, const Joint::Stage& stage,
                                   size_t gradients) {
  const ir::Node* end = backward.top()->terminator();
  std::vector<size_t> returned = stage.gradients;
  for (size_t i = gradients; i < end->args().size(); ++i) returned.push_back(i);
  Slice slice(backward);
  for (size_t place : returned) {
    if (end->arg(place).isValue()) slice.add(end->arg(place).toValue());
  }
  std::vector<const ir::Node*> nodes;
  for (const ir::Node* node = backward.top()->first(); node != end; node = node->next()) {
    if (isSeen(*node) && leadsTo(backward, *node, saved, stage)) slice.add(*node);
  }
  for (const ir::Node* node = backward.top()->first(); node != end; node = node->next()) {
    if (slice.has(*node)) nodes.push_back(node);
  }
  return ir::clone(backward, nodes, returned);
}

std::vector<bool> parametersOf(const ir::Graph& graph, const std::vector<const ir::Value*>& values) {
  Slice slice(graph);
  for (const ir::Value* value : values) slice.add(value);
  std::vector<bool> found;
  for (const ir::Value* parameter : graph.top()->parameters()) found.push_back(slice.has(parameter));
  return found;
}

}  // namespace saker::aot
