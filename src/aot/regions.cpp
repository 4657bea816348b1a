#include "aot/regions.h"

#include "autograd/checkpoint.h"
#include "capture/trace.h"

namespace saker::aot {

namespace {

const ir::Location* under(ir::Context& context, const ir::Location* location, const ir::Location* outermost) {
  if (!location) return outermost;
  return context.location(location->file, location->line, location->function, location->modulePath,
                          under(context, location->caller, outermost));
}

}  // namespace

uint32_t recordedSoFar() {
  tracing::Trace* trace = tracing::current();
  return trace ? trace->graph().nodeLimit() : 0;
}

void markRecorded(uint32_t since, int region, std::string_view what) {
  tracing::Trace* trace = tracing::current();
  if (!trace) return;
  ir::Context& context = *trace->context();
  const ir::Location* mark = context.location(autograd::kCheckpointFile, region, what);
  for (ir::Node* node = trace->graph().top()->last(); node && node->id() >= since; node = node->prev()) {
    if (autograd::checkpointOf(*node).kind != autograd::Checkpoint::Kind::None) continue;
    trace->graph().setLocation(node, under(context, node->location(), mark));
  }
}

}  // namespace saker::aot
