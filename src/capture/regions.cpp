#include "capture/regions.h"

#include "capture/tape.h"
#include "capture/trace.h"

namespace saker::tracing {

namespace {

thread_local const ir::Region* around = nullptr;  // where the region that this thread is in began

}  // namespace

Recording* currentRecording() {
  if (Tape* tape = currentTape()) return tape;
  return current();
}

MarkedRegion::MarkedRegion() {
  Recording* recording = currentRecording();
  if (!recording || around == recording->body()) return;
  graph_ = &recording->graph();
  body_ = recording->body();
  since_ = recording->graph().nodeLimit();
  if (around) return;  // in a body of a node of it
  around = body_;
  inside_ = true;
}

void MarkedRegion::end() {
  Recording* recording = currentRecording();
  bool same = inside_ && recording && &recording->graph() == graph_ && recording->body() == body_;
  leave();
  if (!same) return;
  ir::Node* last = recording->body()->last();
  if (!last || last->id() < since_) return;
  uint16_t number = recording->countRegion();
  for (ir::Node* node = last; number && node && node->id() >= since_; node = node->prev()) {
    ir::Attributes known = node->attributes();
    known.call = number;
    recording->graph().setAttributes(node, known);
  }
}

void MarkedRegion::leave() {
  if (inside_) around = nullptr;
  inside_ = false;
}

}  // namespace saker::tracing
