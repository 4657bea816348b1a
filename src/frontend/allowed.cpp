#include "frontend/allowed.h"

#include <unordered_set>

namespace saker::frontend {

namespace {

std::unordered_set<const void*>& allowedFunctions() {
  static std::unordered_set<const void*>& all = *new std::unordered_set<const void*>;  // of the process: saker.allow()
  return all;
}

// What bound methods and functions of C are known by: there may be a new object for each access.
const void* identityOf(PyObject* callable) {
  if (Py_IS_TYPE(callable, &PyMethod_Type)) return PyMethod_GET_FUNCTION(callable);
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  return callable;
}

}  // namespace

void allow(PyObject* callable) {
  if (allowedFunctions().insert(identityOf(callable)).second) Py_INCREF(callable);  // for good: its address is known
}

bool isAllowed(PyObject* callable) {
  return !allowedFunctions().empty() && allowedFunctions().contains(identityOf(callable));
}

}  // namespace saker::frontend
