// Errors between C++ and Python.
#pragma once

#include <Python.h>

#include <exception>
#include <string>

namespace saker {

// Throws the error that is set as a C++ exception, which becomes that error again where it reaches Python.
[[noreturn]] void throwPythonError();

// Is it Ctrl-C, SystemExit, or another error of Python's that is no Exception? With the interpreter's lock held.
bool isInterruption(const std::exception& error);

// Is the exception that was caught last one of Python's? Then it is Python's error again.
bool setPythonError();

// The same, but what is no Exception (Ctrl-C, SystemExit) is thrown again, and other errors are cleared: for code that
// goes on without what failed.
bool clearPythonError();

// Calls `call` of `context`; what it throws is set as Python's error, and what PyTorch warns of as Python's warnings.
// No C++ exception may pass a frame of CPython's.
PyObject* asPython(PyObject* (*call)(void* context), void* context);
template <typename Function>
PyObject* asPython(Function function) {
  return asPython([](void* context) { return (*static_cast<Function*>(context))(); }, &function);
}

// The class `name` of saker.errors, a new reference.
PyObject* errorClass(const char* name);
// Sets a saker.CaptureError.
void setCaptureError(const std::string& reason, const std::string& text);

}  // namespace saker
