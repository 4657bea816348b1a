// The PEP 523 hook: one for the interpreter, installed as long as some thread has a use for it.
#pragma once

#include "watch/frame.h"

namespace saker::watch {

// With the interpreter's lock held.
void useHook();
void releaseHook();

// What was installed before: untouched frames go there.
_PyFrameEvalFunction nextHook();

// Runs a frame without the hook, so that CPython's own calls of Python functions need no C stack and are reported to
// monitoring as they always are. Other threads that watch keep the hook: then it stays.
class Unhooked {
 public:
  Unhooked();
  ~Unhooked();
  Unhooked(const Unhooked&) = delete;
  Unhooked& operator=(const Unhooked&) = delete;

 private:
  bool removed_;
};

}  // namespace saker::watch
