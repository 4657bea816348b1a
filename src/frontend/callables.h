// Callables of C and the names they go by, for the parts of the recorder that tell calls apart.
#pragma once

#include <Python.h>

#include "watch/ref.h"

namespace saker::frontend {

// The object that a bound method of C is bound to, or nullptr: a function of a module, or of a type.
inline PyObject* selfOf(PyObject* callable) {
  if (!PyCFunction_Check(callable)) return nullptr;
  PyObject* self = PyCFunction_GET_SELF(callable);
  return self && !PyModule_Check(self) && !PyType_Check(self) ? self : nullptr;
}

// What a slot wrapper is bound to, where it is (a method-wrapper, such as x.__add__).
inline Ref selfOfWrapper(PyObject* wrapper) {
  static PyObject* const key = PyUnicode_InternFromString("__self__");
  Ref self = Ref::steal(PyObject_GetAttr(wrapper, key));
  if (!self) PyErr_Clear();
  return self;
}

// The same text as an object that is compared by its address.
inline Ref interned(PyObject* text) {
  PyObject* raw = Py_NewRef(text);
  PyUnicode_InternInPlace(&raw);
  return Ref::steal(raw);
}

}  // namespace saker::frontend
