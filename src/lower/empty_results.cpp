#include "lower/empty_results.h"

#include <algorithm>

#include "ops/builder.h"
#include "ops/effects.h"
#include "ops/operator.h"

namespace saker::lower {
namespace {

bool isEmpty(const ir::Value* value) {
  const ir::TensorType* type = value->tensor();
  if (!type || type->symbolic || type->layout != ir::Layout::Strided || type->device.type != ir::DeviceType::CPU) {
    return false;
  }
  if (type->flags.conj || type->flags.neg || !type->offset.isConst(0)) return false;
  std::span<const sym::Int> sizes = type->sizes();
  return std::any_of(sizes.begin(), sizes.end(), [](const sym::Int& size) { return size.isConst(0); });
}

void takeApart(ir::Graph& graph, ir::Node* node) {
  const ops::Operator* op = node->isReturn() ? nullptr : ops::of(node);
  if (!op || !op->element || node->resultCount() < 2 || node->attributes().shown) return;
  for (size_t i = 0; i < node->resultCount(); ++i) {
    ir::Value* result = node->result(i);
    if (!result->hasUses() || !isEmpty(result) || ops::sharing(*node, i) != ops::Sharing::None) continue;
    graph.replaceAllUses(result, ops::Builder(graph, node->region(), node, node->origin()).memoryOf(*result->tensor()));
  }
}

void takeApartIn(ir::Graph& graph, ir::Region* region) {
  for (ir::Node* node = region->first(); node; node = node->next()) {
    for (ir::Region* body : node->regions()) takeApartIn(graph, body);
    takeApart(graph, node);
  }
}

}  // namespace

void takeEmptyResultsApart(ir::Graph& graph) { takeApartIn(graph, graph.top()); }

}  // namespace saker::lower
