#include "aot/checkpoint_regions.h"

#include "capture/trace.h"

namespace saker::aot {

uint32_t recordedSoFar() {
  tracing::Trace* trace = tracing::current();
  return trace ? trace->graph().nodeLimit() : 0;
}

void markRecorded(uint32_t since, uint32_t region, std::string_view what) {
  tracing::Trace* trace = tracing::current();
  if (!trace) return;
  using Checkpoint = ir::Attributes::Checkpoint;
  for (ir::Node* node = trace->graph().top()->last(); node && node->id() >= since; node = node->prev()) {
    ir::Attributes known = node->attributes();
    if (known.isCheckpointed()) continue;
    known.checkpoint = what == "save"     ? Checkpoint::Save
                       : what == "redraw" ? Checkpoint::Redraw
                                          : Checkpoint::Recompute;
    known.region = static_cast<uint16_t>(1 + region % ir::Attributes::kMaxRegion);
    trace->graph().setAttributes(node, known);
  }
}

}  // namespace saker::aot
