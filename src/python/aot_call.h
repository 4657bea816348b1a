// The callable that saker.aot_function gives: it finds what was compiled for a call and runs it, without Python.
#pragma once

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "python/aot_variants.h"
#include "runtime/program.h"

namespace saker::python {

// Calls such a callable, or compiles for the call.
py::object callCompiled(PyObject* callable, CallArguments call);
void prepareCompiled(PyObject* callable, const CallArguments& call);

// What `function` gives; what it throws is Python's error.
template <typename Function>
PyObject* withPythonErrors(const Function& function) {
  HANDLE_TH_ERRORS
  try {
    return function().release().ptr();
  } catch (const runtime::RunError& error) {
    PyErr_SetString(py::module_::import("saker.errors").attr("RunError").ptr(), error.what());
    return nullptr;
  }
  END_HANDLE_TH_ERRORS
}

// Steals it; throws Python's error where there is none.
inline py::object checked(PyObject* result) {
  if (!result) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

// A type whose objects are called by vectorcall and take part in garbage collection, made of these slots and those of
// every such type.
void addCallableType(py::module_& module, const char* name, size_t size, std::vector<PyType_Slot> slots);

void bindAotCall(py::module_& module);
void bindAotModule(py::module_& module);
void nameAotNodes();

}  // namespace saker::python
