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

void SameValues::tellResults(const ir::Node& earlier, const ir::Node& later) {
  for (size_t i = 0; i < earlier.resultCount(); ++i) tell(later.result(i), earlier.result(i));
}

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

bool SameValues::equal(const ir::Arg& earlier, const ir::Arg& later) const {
  if (later.isList()) {
    if (!earlier.isList() || earlier.toList().size() != later.toList().size()) return false;
    for (size_t i = 0; i < later.toList().size(); ++i) {
      if (!equal(earlier.toList()[i], later.toList()[i])) return false;
    }
    return true;
  }
  if (!later.isValue()) return ir::sameArg(earlier, later);
  if (!earlier.isValue()) return false;
  const ir::Value* value = later.toValue();
  const ir::Region* region = value->region();
  while (region && region != body_) region = region->owner() ? region->owner()->region() : nullptr;
  return earlier.toValue() == (region ? of(value) : value);  // what is outside of both is itself
}

bool SameValues::equal(const ir::Region& earlier, const ir::Region& later) {
  if (earlier.parameters().size() != later.parameters().size()) return false;
  for (size_t i = 0; i < later.parameters().size(); ++i) {
    if (earlier.parameters()[i]->type() != later.parameters()[i]->type()) return false;
    tell(later.parameters()[i], earlier.parameters()[i]);
  }
  const ir::Node *a = earlier.first(), *b = later.first();
  for (; a && b; a = a->next(), b = b->next()) {
    if (!equal(*a, *b)) return false;
    tellResults(*a, *b);
  }
  return !a && !b;
}

bool SameValues::equal(const ir::Node& earlier, const ir::Node& later) {
  if (earlier.op() != later.op() || earlier.args().size() != later.args().size() ||
      earlier.resultCount() != later.resultCount() || earlier.regions().size() != later.regions().size() ||
      !sameModes(earlier.attributes(), later.attributes())) {
    return false;
  }
  for (size_t i = 0; i < later.args().size(); ++i) {
    if (!equal(earlier.arg(i), later.arg(i))) return false;
  }
  for (size_t i = 0; i < later.resultCount(); ++i) {
    if (earlier.result(i)->type() != later.result(i)->type()) return false;
  }
  for (size_t i = 0; i < later.regions().size(); ++i) {
    if (!equal(*earlier.regions()[i], *later.regions()[i])) return false;
  }
  return true;
}

}  // namespace saker::passes
