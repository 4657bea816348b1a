#include "runtime/shown.h"

#include "ir/each_value.h"
#include "ops/effects.h"
#include "ops/operator.h"
#include "passes/memory.h"

namespace saker::runtime {

namespace {

// Of a recording: inputs that share memory are given as views of one, and of the user's operators it is known that they
// share none.
passes::Memory memoryOf(const ir::Graph& graph) {
  return passes::Memory(graph, {false, passes::Memory::Assumptions::Unknown::Nothing});
}

// Calls `visit` with each operand whose memory the node writes to, or gives as a result: to run too many nodes above is
// slower, never wrong.
template <typename Visit>
void eachTouched(const ir::Node& node, const Visit& visit) {
  const ops::Operator* op = ops::of(&node);
  if (!op) return;
  for (size_t i = 0; i < node.args().size(); ++i) {
    bool touched = op->returnsArgument(i) || op->writesArgument(i) || op->has(ops::kSetsStorage);
    if (touched) ir::eachValue(node.arg(i), visit);
  }
}

}  // namespace

bool markShown(ir::Graph& graph) {
  passes::Memory memory = memoryOf(graph);
  const ir::Node* end = graph.top()->terminator();
  std::vector<bool> escapes(graph.valueLimit());
  if (end) {
    for (const ir::Arg& arg : end->args()) {
      ir::eachValue(arg, [&](const ir::Value* value) { escapes[memory.classOf(value)] = true; });
    }
  }
  // From the end on, so that a view is known to lead to a result or to a write, or to lead to neither.
  std::vector<bool> led(graph.valueLimit());
  if (end) {
    for (const ir::Arg& arg : end->args()) ir::eachValue(arg, [&](const ir::Value* value) { led[value->id()] = true; });
  }
  bool any = false, grad = false;
  for (ir::Node* node = end ? end->prev() : graph.top()->last(); node; node = node->prev()) {
    grad |= !node->attributes().noGrad;
    bool escaping = false;
    eachTouched(*node, [&](const ir::Value* touched) { escaping |= escapes[memory.classOf(touched)]; });
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

std::vector<bool> placedParameters(const ir::Graph& graph) {
  std::vector<bool> out(graph.top()->parameters().size());
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    if (node->operandCount() == 0 || node->resultCount() == 0 || !ops::of(node)) continue;
    if (ops::sharing(*node, 0) != ops::Sharing::Storage) continue;
    const ir::Value* base = node->operand(0);
    while (const ir::Value* before = ops::sharedArgument(base)) base = before;
    if (base->isParameter() && base->region() == graph.top()) out[base->index()] = true;
  }
  return out;
}

std::vector<bool> writtenParameters(const ir::Graph& graph) {
  passes::Memory memory = memoryOf(graph);
  std::vector<bool> out;
  for (const ir::Value* parameter : graph.top()->parameters()) out.push_back(memory.isWritten(parameter));
  return out;
}

}  // namespace saker::runtime
