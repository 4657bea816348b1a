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

void bindAotCall(py::module_& module);
void bindAotModule(py::module_& module);
void nameAotNodes();

}  // namespace saker::python
