// The watched evaluation loop: below a root call it executes every Python frame itself, instruction by instruction, on
// CPython's own frames and on the real objects, and tells an observer what it is about to do.
#pragma once

#include <Python.h>

#include <vector>

#include "watch/observer.h"

namespace saker::watch {

// Calls `callable` on this thread and watches it and everything it calls, until it returns or the observer stops it.
// Returns what the call returns; nullptr with the exception set.
PyObject* run(Observer& observer, PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* names);

// Is a call being watched on this thread? Code that is not the program's (kernels written in Python, callbacks of ours)
// runs unwatched below a Pause.
bool watching();

// Stops watching this thread's call for good: as if an event had returned false. For code below the loop.
void stop();

class Pause {
 public:
  Pause();
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  friend class Resume;
  void* before_;
};

// While one lives, the call that was paused goes on being watched.
class Resume {
 public:
  explicit Resume(const Pause& pause);
  ~Resume();
  Resume(const Resume&) = delete;
  Resume& operator=(const Resume&) = delete;

 private:
  void* before_;
};

// Where the innermost watched frame stands: file and line of its current instruction. Cheap; no Python runs.
struct Place {
  PyCodeObject* code = nullptr;
  int line = 0;
};
Place place();
// The places that are being watched, innermost first.
std::vector<Place> places();

// Do frames of this CPython version go through the loop?
bool supported();

}  // namespace saker::watch
