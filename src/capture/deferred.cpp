#include "capture/deferred.h"

namespace saker::tracing {

namespace {

// The scope of the blocks that this thread is in.
thread_local std::weak_ptr<TraceScope> openScope;

}  // namespace

DeferredBlock::DeferredBlock(const Host& host) {
  Trace* outer = current();
  if (outer && outer->mode() == Mode::Capture) return;
  if (outer) {
    trace_ = outer->shared_from_this();
    scope_ = openScope.lock();
    before_ = trace_->stats();
    return;
  }
  trace_ = std::make_shared<Trace>(Mode::Deferred, host);
  scope_ = std::make_shared<TraceScope>(trace_);
  openScope = scope_;
}

DeferredBlock::~DeferredBlock() {
  // The mode of another thread cannot be taken off from here.
  if (scope_ && !isOnItsThread()) new std::shared_ptr<TraceScope>(std::move(scope_));
}

void DeferredBlock::leave() {
  scope_.reset();
  flush();
}

void DeferredBlock::flush() {
  if (trace_) trace_->flush();
}

size_t DeferredBlock::pending() const { return trace_ ? trace_->graph().liveNodes() : 0; }

TraceStats DeferredBlock::stats() const {
  TraceStats counts = trace_ ? trace_->stats() : TraceStats();
  counts.recorded -= before_.recorded;
  counts.flushes -= before_.flushes;
  counts.ranAtOnce -= before_.ranAtOnce;
  counts.layoutMismatches -= before_.layoutMismatches;
  counts.fallbacks -= before_.fallbacks;
  return counts;
}

}  // namespace saker::tracing
