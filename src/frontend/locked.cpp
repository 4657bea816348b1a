#include "frontend/locked.h"

#include <utility>

#include "host/kept_error.h"

namespace saker::frontend {

Locked::Locked(const std::vector<Ref>& locks) {
  static PyObject* const acquire = PyUnicode_InternFromString("acquire");
  for (const Ref& lock : locks) {
    PyObject* args[] = {lock.get(), Py_False};
    Ref taken = Ref::steal(PyObject_VectorcallMethod(acquire, args, 2, nullptr));
    if (!taken) PyErr_Clear();
    all_ &= taken.get() == Py_True;
    if (!all_) return;
    taken_.push_back(lock);
  }
}

void Locked::release() {
  static PyObject* const name = PyUnicode_InternFromString("release");
  if (taken_.empty()) return;
  const KeptError kept;
  for (const Ref& lock : std::exchange(taken_, {})) {
    Ref done = Ref::steal(PyObject_CallMethodNoArgs(lock.get(), name));
    if (!done) PyErr_Clear();
  }
}

}  // namespace saker::frontend
