// Regions that a program marks (nested_compile_region): what is recorded between the two calls is one call of it. Its
// nodes carry its number (ir/attributes.h); a region inside of another one belongs to that.
#pragma once

#include <cstdint>

#include "capture/recording.h"

namespace saker::tracing {

// What this thread records into, or nullptr.
Recording* currentRecording();

class MarkedRegion {
 public:
  // It begins where the thread is.
  MarkedRegion();
  // The function has returned: what was recorded since is marked. Without this nothing is.
  void end();
  // Is over, whether or not it ended well.
  void leave();
  ~MarkedRegion() { leave(); }
  MarkedRegion(const MarkedRegion&) = delete;
  MarkedRegion& operator=(const MarkedRegion&) = delete;

 private:
  const ir::Graph* graph_ = nullptr;  // nullptr: nothing is recorded, or a region is around this one
  const ir::Region* body_ = nullptr;
  uint32_t since_ = 0;
  bool inside_ = false;
};

}  // namespace saker::tracing
