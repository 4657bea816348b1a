// The state of one watched call, and the hook through which CPython gives us its frames. Internal to this folder.
#pragma once

#include "watch/frame.h"
#include "watch/observer.h"

namespace saker::watch {

struct Machine;

struct Session {
  explicit Session(Observer& watcher) : observer(&watcher) {}

  Observer* observer;  // one that hears nothing and refuses everything, once the session is stopped
  bool stopped = false;
  Machine* innermost = nullptr;      // the watched frame that runs
  const char* stackLimit = nullptr;  // where C stack gets scarce
  bool hooked = false;               // holds a use of the hook

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

// Runs the frame in the loop.
PyObject* execute(Session& session, PyThreadState* thread, struct _PyInterpreterFrame* raw, bool throwing);

}  // namespace saker::watch
