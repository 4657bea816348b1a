#include "watch/hook.h"

#include <pthread.h>

#include "watch/machine.h"
#include "watch/session.h"

namespace saker::watch {

namespace {

// Shared by all threads, guarded by the interpreter's lock: CPython has one hook.
struct Hook {
  int uses = 0;
  bool installed = false;  // ours is on top of the chain, or below a hook that was installed later
  _PyFrameEvalFunction next = nullptr;
};
Hook& hook() {
  static Hook state;
  return state;
}

// C stack that must be left for what runs below a frame.
constexpr size_t spareStack = size_t{256} << 10;

// Where this thread's C stack ends, with something to spare.
const char* stackLimit() {
  static thread_local const char* const limit = [] {
    pthread_attr_t attributes;
    void* lowest = nullptr;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      pthread_attr_getstack(&attributes, &lowest, &size);
      pthread_attr_destroy(&attributes);
    }
    return static_cast<const char*>(lowest) + spareStack;
  }();
  return limit;
}

PyObject* unseen(Session& session, const char* why, PyThreadState* thread, struct _PyInterpreterFrame* raw,
                 bool throwing) {
  session.observer->unseen(why);
  const Unwatched unwatched;
  const Unhooked unhooked;
  return saker_frame_pass(thread, raw, throwing, nextHook());
}

PyObject* onFrame(PyThreadState* thread, struct _PyInterpreterFrame* raw, int throwing) {
  Session* session = currentSession();
  Machine* caller = session == nullptr ? nullptr : session->innermost;
  if (caller != nullptr && caller->callee != nullptr && caller->callee == saker_raw_function(raw))
    caller->giveArguments();
  // Making a generator executes nothing of the program's; its steps come here again.
  if (session == nullptr || session->stopped || saker_raw_makes_generator(raw) || saker_thread_exhausted(thread)) {
    return saker_frame_pass(thread, raw, throwing, nextHook());
  }
  if (saker_thread_collecting(thread)) {  // a finalizer is not the program's
    const Unwatched unwatched;
    return saker_frame_pass(thread, raw, throwing, nextHook());
  }
  if (saker_raw_traced(thread, raw)) return unseen(*session, "tracing or monitoring is on", thread, raw, throwing);
  const char here = 0;
  if (&here < stackLimit()) return unseen(*session, "the C stack is nearly used up", thread, raw, throwing);
  return execute(*session, thread, raw, throwing != 0);
}

void install() {
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  hook().next = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  _PyInterpreterState_SetEvalFrameFunc(interpreter, onFrame);
  hook().installed = true;
}

// A hook that was installed later and not removed yet keeps ours in its chain: then ours stays and passes everything
// on.
void remove() {
  PyInterpreterState* interpreter = PyInterpreterState_Get();
  if (_PyInterpreterState_GetEvalFrameFunc(interpreter) != onFrame) return;
  _PyInterpreterState_SetEvalFrameFunc(interpreter, hook().next);
  hook().installed = false;
}

bool missing() {
  // Another hook's removal may have taken ours with it.
  return !hook().installed ||
         _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()) == _PyEval_EvalFrameDefault;
}

}  // namespace

void useHook() {
  ++hook().uses;
  if (missing()) install();
}

void releaseHook() {
  if (--hook().uses == 0) remove();
}

_PyFrameEvalFunction nextHook() {
  _PyFrameEvalFunction next = hook().next;
  return next != nullptr ? next : _PyEval_EvalFrameDefault;
}

Unhooked::Unhooked() : removed_(hook().uses == 1) {
  if (removed_) remove();
}

Unhooked::~Unhooked() {
  if (removed_ && hook().uses > 0 && missing()) install();
}

}  // namespace saker::watch
