#include "ops/effects.h"

#include <algorithm>

#include "ops/control_flow.h"
#include "ops/functional_form.h"

namespace saker::ops {
namespace {

void add(Effects& effects, const ir::Node& node) {
  if (node.isReturn()) return;
  if (const Operator* op = of(&node)) {
    effects.traits |= op->traits;
    effects.writes |= writes(node);
    // It may never end, which is seen as an error is.
    if (isLoop(node) && node.arg(kLoopTrips).isNone()) effects.traits |= kFailsOnData;
  } else {
    effects.unknown = effects.writes = true;
  }
  for (const ir::Region* body : node.regions()) {
    for (const ir::Node* inner = body->first(); inner; inner = inner->next()) add(effects, *inner);
  }
}

}  // namespace

bool writes(const ir::Node& node) {
  const Operator* op = of(&node);
  return op && op->writes && !writesNothing(node);
}

namespace detail {

ResultRange resultsOf(const ir::Node& node, size_t schemaReturn) {
  const std::vector<ir::SchemaArgument>& returns = of(&node)->parsed.returns;
  auto isList = [](const ir::SchemaArgument& result) { return result.type.list; };
  auto lists = std::count_if(returns.begin(), returns.end(), isList);
  if (lists > 1) return {0, node.resultCount()};
  size_t ofList = node.resultCount() - std::min(node.resultCount(), returns.size() - 1);
  size_t first = 0;
  for (size_t r = 0; r < schemaReturn; ++r) first += isList(returns[r]) ? ofList : 1;
  size_t last = first + (isList(returns[schemaReturn]) ? ofList : 1);
  return {std::min(first, node.resultCount()), std::min(last, node.resultCount())};
}

}  // namespace detail

ir::Value* sharedArgument(const ir::Value* result) {
  ir::Value* found = nullptr;
  if (!result->def()) return found;
  eachShared(*result->def(), [&](const ir::Value* each, ir::Value* argument, bool) {
    if (each == result && !found && argument && argument->tensor()) found = argument;
  });
  return found;
}

Effects effectsOf(const ir::Node& node) {
  Effects effects;
  add(effects, node);
  return effects;
}

}  // namespace saker::ops
