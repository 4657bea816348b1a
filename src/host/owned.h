// A new reference that CPython gave.
#pragma once

#include "host/errors.h"
#include "watch/ref.h"

namespace saker {

// Throws Python's error where there is none.
inline Ref owned(PyObject* object) {
  if (!object) throwPythonError();
  return Ref::steal(object);
}

}  // namespace saker
