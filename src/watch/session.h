// The state of one watched call, and the hook through which CPython gives us its frames. Internal to this folder.
#pragma once

#include "watch/frame.h"
#include "watch/guarded.h"
#include "watch/observer.h"

namespace saker::watch {

struct Machine;

struct Session {
  explicit Session(Observer& watcher) : guarded(watcher), observer(&guarded) {}

  Guarded guarded;
  Observer* observer;  // one that hears nothing and refuses everything, once the session is stopped
  bool stopped = false;
  Machine* innermost = nullptr;      // the watched frame that runs
  const char* stackLimit = nullptr;  // where C stack gets scarce
  bool hooked = false;               // holds a use of the hook
  PyCodeObject* passed = nullptr;    // what runs now is called by a frame of this code, which is not watched itself

  void stop();
};

// The session whose frames this thread's frames are; nullptr when nothing is watched.
Session*& currentSession();

// Nothing is watched on this thread as long as it lives.
class Unwatched {
 public:
  Unwatched() : before_(currentSession()) { currentSession() = nullptr; }
  ~Unwatched() { currentSession() = before_; }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;

 private:
  Session* before_;
};

// The session whose observer skips a frame that runs below: nullptr when none does. Its frames are still around.
Session*& skippingSession();

class Skipping {
 public:
  explicit Skipping(Session& session) : before_(skippingSession()) { skippingSession() = &session; }
  ~Skipping() { skippingSession() = before_; }
  Skipping(const Skipping&) = delete;
  Skipping& operator=(const Skipping&) = delete;

 private:
  Session* before_;
  Unwatched unwatched_;
};

// Runs the frame in the loop.
PyObject* execute(Session& session, PyThreadState* thread, struct _PyInterpreterFrame* raw, bool throwing);

}  // namespace saker::watch
