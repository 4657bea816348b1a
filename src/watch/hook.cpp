#include "watch/hook.h"

#include "watch/machine.h"
#include "watch/session.h"
#include "watch/traced.h"

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

PyObject* unseen(Session& session, Unseen why, PyThreadState* thread, struct _PyInterpreterFrame* raw, bool throwing) {
  session.observer->unseen(why);
  const bool raises = throwing || PyErr_Occurred() != nullptr;  // the observer's exception, in place of the frame
  const Unwatched unwatched;
  const Unhooked unhooked;
  return saker_frame_pass(thread, raw, raises ? 1 : 0, nextHook());
}

PyObject* onFrame(PyThreadState* thread, struct _PyInterpreterFrame* raw, int throwing) {
  Session* session = currentSession();
  if (session == nullptr) return saker_frame_pass(thread, raw, throwing, nextHook());
  Machine* caller = session->innermost;
  if (caller != nullptr && caller->callee != nullptr && caller->callee == saker_raw_function(raw)) {
    caller->giveArguments();
  }
  const int kind = session->stopped ? SAKER_IDLE : saker_raw_kind(thread, raw);
  if (kind == SAKER_WATCHED) {
    const char here = 0;
    if (&here < session->stackLimit) return unseen(*session, Unseen::DeepStack, thread, raw, throwing);
    return execute(*session, thread, raw, throwing != 0);
  }
  if (kind == SAKER_TRACED) return unseen(*session, Unseen::Traced, thread, raw, throwing);
  if (kind == SAKER_FINALIZER) {  // not the program's
    const Unwatched unwatched;
    return saker_frame_pass(thread, raw, throwing, nextHook());
  }
  return saker_frame_pass(thread, raw, throwing, nextHook());
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

bool traced() { return saker_thread_traced(PyThreadState_Get()) != 0; }

Unhooked::Unhooked() : removed_(hook().uses == 1) {
  if (removed_) remove();
}

Unhooked::~Unhooked() {
  if (removed_ && hook().uses > 0 && missing()) install();
}

}  // namespace saker::watch
