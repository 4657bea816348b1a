#include "aot/checkpoint_regions.h"

#include <atomic>

#include "capture/regions.h"
#include "ops/effects.h"

namespace saker::aot {

namespace {

// Of the nodes at the end of where this thread records, those from a number on. F: void(ir::Node&).
template <typename F>
void eachSince(uint32_t since, F&& visit) {
  tracing::Recording* recording = tracing::currentRecording();
  if (!recording) return;
  for (ir::Node* node = recording->body()->last(); node && node->id() >= since; node = node->prev()) visit(*node);
}

bool isOlder(const ir::Value* value, uint32_t since) {
  while (const ir::Value* base = ops::sharedArgument(value)) value = base;
  return value->isParameter() || value->def()->id() < since;
}

}  // namespace

uint32_t recordedSoFar() {
  tracing::Recording* recording = tracing::currentRecording();
  return recording ? recording->graph().nodeLimit() : 0;
}

uint16_t nextCheckpoint() {
  static std::atomic<uint32_t> count = 0;
  return tracing::currentRecording() ? static_cast<uint16_t>(1 + count++ % ir::Attributes::kMaxRegion) : 0;
}

void markRecorded(uint32_t since, uint16_t region, std::string_view what) {
  using Checkpoint = ir::Attributes::Checkpoint;
  if (!region) return;  // nothing was recorded when it began
  eachSince(since, [&](ir::Node& node) {
    ir::Attributes known = node.attributes();
    if (known.isCheckpointed()) return;
    known.checkpoint = what == "save"     ? Checkpoint::Save
                       : what == "redraw" ? Checkpoint::Redraw
                                          : Checkpoint::Recompute;
    known.region = region;
    tracing::currentRecording()->graph().setAttributes(&node, known);
  });
}

bool wroteBefore(uint32_t since) {
  bool wrote = false;
  eachSince(since, [&](const ir::Node& node) {
    if (!ops::of(&node)) {
      wrote = true;  // it may do anything
    } else {
      ops::eachWritten(node, [&](const ir::Value* value) { wrote |= isOlder(value, since); });
    }
  });
  return wrote;
}

}  // namespace saker::aot
