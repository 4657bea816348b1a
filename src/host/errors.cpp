#include "host/errors.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "watch/ref.h"

namespace saker {

void throwPythonError() {
  python_error error;
  error.persist();
  throw error;
}

bool isInterruption(const std::exception& error) {
  if (PyErr_Occurred()) return !PyErr_ExceptionMatches(PyExc_Exception);
  if (const auto* raised = dynamic_cast<const pybind11::error_already_set*>(&error)) {
    return !raised->matches(PyExc_Exception);
  }
  const auto* kept = dynamic_cast<const python_error*>(&error);
  return kept && kept->type && !PyErr_GivenExceptionMatches(kept->type, PyExc_Exception);
}

bool setPythonError() {
  try {
    throw;
  } catch (python_error& error) {
    error.restore();
  } catch (pybind11::error_already_set& error) {
    error.restore();
  } catch (...) {
    return false;
  }
  return true;
}

bool clearPythonError() {
  if (!setPythonError()) return false;
  if (!PyErr_ExceptionMatches(PyExc_Exception)) throwPythonError();
  PyErr_Clear();
  return true;
}

PyObject* asPython(PyObject* (*call)(void* context), void* context) {
  HANDLE_TH_ERRORS
  return call(context);
  END_HANDLE_TH_ERRORS
}

PyObject* errorClass(const char* name) {
  return pybind11::object(pybind11::module_::import("saker.errors").attr(name)).release().ptr();
}

void setCaptureError(const std::string& reason, const std::string& text) {
  Ref type = Ref::steal(errorClass("CaptureError"));
  Ref error = Ref::steal(PyObject_CallFunction(type.get(), "ss", reason.c_str(), text.c_str()));
  if (error) PyErr_SetObject(type.get(), error.get());
}

}  // namespace saker
