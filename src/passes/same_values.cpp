#include "passes/same_values.h"

#include <unordered_map>

#include "ops/effects.h"

namespace saker::passes {

namespace {

bool followsFromArguments(const ir::Node& node) {
  if (!node.resultCount()) return false;
  ops::Effects effects = ops::effectsOf(node);
  return effects.removable() && !effects.ordered() && !effects.has(ops::kNondeterministic) &&
         !effects.has(ops::kDynamicShape);
}

// Autograd is not asked here.
bool sameModes(ir::Attributes a, ir::Attributes b) {
  a.noGrad = b.noGrad = false;
  a.call = b.call = 0;
  return a == b;
}

}  // namespace

void SameValues::find(const ir::Region& earlier, const ir::Region& later) {
  body_ = &later;
  std::unordered_map<const ir::OpDef*, std::vector<const ir::Node*>> byOperator;
  for (const ir::Node* node = earlier.first(); node && !node->isReturn(); node = node->next()) {
    if (followsFromArguments(*node)) byOperator[node->op()].push_back(node);
  }
  for (const ir::Node* node = later.first(); node && !node->isReturn(); node = node->next()) {
    auto candidates = byOperator.find(node->op());
    if (candidates == byOperator.end()) continue;
    for (const ir::Node* candidate : candidates->second) {
      if (!equal(*candidate, *node)) continue;
      tellResults(*candidate, *node);
      break;
    }
  }
}

bool SameValues::sameFacts(const ir::Node& earlier, const ir::Node& later) {
  return sameModes(earlier.attributes(), later.attributes());
}

bool SameValues::sameValue(const ir::Value* earlier, const ir::Value* later) const {
  const ir::Region* region = later->region();
  while (region && region != body_) region = region->owner() ? region->owner()->region() : nullptr;
  return earlier == (region ? of(later) : later);  // what is outside of both is itself
}

}  // namespace saker::passes
