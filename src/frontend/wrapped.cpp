#include "frontend/wrapped.h"

#include "capture/tape.h"
#include "host/errors.h"
#include "host/gil.h"
#include "host/kept_error.h"
#include "host/objects.h"
#include "host/trace_host.h"
#include "watch/checks.h"
#include "watch/loop.h"
#include "watch/ref.h"

namespace saker::frontend {

namespace {

// The mode that is on for this thread's recording, or nothing.
Ref& modeOfThread() {
  static thread_local Ref mode;
  return mode;
}

Ref modeModule() { return Ref::steal(PyImport_ImportModule("saker._tape_mode")); }

void unwatched(void (*function)(void*), void* argument) {
  watch::Pause pause;
  function(argument);
}

}  // namespace

bool watchWrappers() {
  if (modeOfThread()) return true;
  watch::Pause pause;
  tracing::TapeScope untaped(nullptr);
  Ref module = modeModule();
  Ref mode = Ref::steal(module ? PyObject_CallMethod(module.get(), "enter", nullptr) : nullptr);
  if (!mode) throwPythonError();
  if (mode.get() == Py_None) return false;
  modeOfThread() = std::move(mode);
  return true;
}

void WrappersScope::leave() {
  if (!modeOfThread()) return;
  KeptError raised;  // by the call
  Ref mode = std::exchange(modeOfThread(), Ref());
  Ref module = modeModule();
  Ref left = Ref::steal(module ? PyObject_CallMethod(module.get(), "leave", "O", mode.get()) : nullptr);
  if (!left) PyErr_WriteUnraisable(mode.get());
}

tracing::Host watchedHost() {
  tracing::Host host = pythonHost();
  host.checkedTruth = &watch::checkedTruth;
  host.chooses = &watch::chooses;
  host.isWrapper = &isWrapper;
  host.unwatched = &unwatched;
  return host;
}

}  // namespace saker::frontend
