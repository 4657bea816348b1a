#include "frontend/wrapped.h"

#include "capture/tape.h"
#include "host/errors.h"
#include "host/gil.h"
#include "host/kept_error.h"
#include "host/objects.h"
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

bool isWrapperClass(PyTypeObject* type) {
  static PyObject* const flatten = PyUnicode_InternFromString("__tensor_flatten__");
  static PyObject* const unflatten = PyUnicode_InternFromString("__tensor_unflatten__");
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && PyType_IsSubtype(type, tensorClass()) &&
         _PyType_Lookup(type, flatten) && _PyType_Lookup(type, unflatten);
}

bool isWrapper(const at::Tensor& tensor) {
  if (!tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) return false;
  HoldInterpreter gil;
  Ref object = Ref::steal(wrapTensor(tensor));
  return object && isWrapperClass(Py_TYPE(object.get()));
}

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

void addWrappers(tracing::Host& host) {
  host.isWrapper = &isWrapper;
  host.unwatched = &unwatched;
}

}  // namespace saker::frontend
