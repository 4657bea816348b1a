// The dict of an object for whoever reads __dict__: that of a function is made when it is first asked for.
#pragma once

#include "frontend/guards.h"

namespace saker::frontend {

inline PyObject* madeDict(PyObject* object) {
  PyObject* dict = instanceDict(object);
  if (dict || !PyFunction_Check(object)) return dict;
  Ref made = Ref::steal(PyObject_GenericGetDict(object, nullptr));  // the function holds it
  if (!made) PyErr_Clear();
  return made.get();
}

}  // namespace saker::frontend
