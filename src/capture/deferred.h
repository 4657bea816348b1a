// A block of a program whose operators are recorded and run later.
#pragma once

#include <memory>
#include <thread>

#include "capture/trace.h"

namespace saker::tracing {

// Blocks nest: one that is entered inside of another one on the same thread records into the same trace, so that all
// operators have one order. Leaving any of them runs what is pending. Inside of a capture a block records into that,
// and there is nothing to run.
class DeferredBlock {
 public:
  explicit DeferredBlock(const Host& host);
  ~DeferredBlock();
  DeferredBlock(const DeferredBlock&) = delete;
  DeferredBlock& operator=(const DeferredBlock&) = delete;

  // Leaves the mode, unless a block is left that shares the trace, and runs what is pending.
  void leave();
  void flush();
  size_t pending() const;
  // Counts since the block was entered.
  TraceStats stats() const;
  bool isOnItsThread() const { return std::this_thread::get_id() == thread_; }

 private:
  std::shared_ptr<Trace> trace_;       // nullptr in a capture
  std::shared_ptr<TraceScope> scope_;  // shared by the blocks of one trace; the last one to leave takes it off
  TraceStats before_;
  std::thread::id thread_ = std::this_thread::get_id();
};

}  // namespace saker::tracing
