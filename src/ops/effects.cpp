#include "ops/effects.h"

#include "ops/control_flow.h"
#include "ops/functional_form.h"

namespace saker::ops {
namespace {

void add(Effects& effects, const ir::Node& node) {
  if (node.isReturn()) return;
  if (const Operator* op = of(&node)) {
    effects.traits |= op->traits;
    effects.writes |= op->writes && !writesNothing(node);
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

Effects effectsOf(const ir::Node& node) {
  Effects effects;
  add(effects, node);
  return effects;
}

}  // namespace saker::ops
