// with and async with.
#include "watch/handlers.h"

namespace saker::watch {

namespace {

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// Looks both methods up on the type, calls the first one. Leaves the second one and the result on the stack.
Flow enter(Machine& m, PyObject* enterName, PyObject* exitName, const char* noEnter, const char* noExit) {
  PyObject* manager = m.top();
  if (!m.observer().readsSpecial(manager, enterName)) return Flow::Stop;
  if (!m.observer().readsSpecial(manager, exitName)) return Flow::Stop;
  const Ref enter = Ref::steal(saker_lookup_special(manager, enterName));
  if (!enter) {
    if (PyErr_Occurred() == nullptr) PyErr_Format(PyExc_TypeError, noEnter, Py_TYPE(manager)->tp_name);
    return Flow::Error;
  }
  PyObject* exit = saker_lookup_special(manager, exitName);
  if (exit == nullptr) {
    if (PyErr_Occurred() == nullptr) PyErr_Format(PyExc_TypeError, noExit, Py_TYPE(manager)->tp_name);
    return Flow::Error;
  }
  m.top() = exit;
  Py_DECREF(manager);
  const Arguments none;
  if (!m.observer().calls(enter.get(), none) && !m.finishUnwatched()) return Flow::Error;
  PyObject* result = PyObject_CallNoArgs(enter.get());
  if (result == nullptr) return Flow::Error;
  m.observer().called(enter.get(), none, result);
  m.push(result);
  return Flow::Next;
}

}  // namespace

Flow enterWith(Machine& m) {
  static PyObject* const enterName = interned("__enter__");
  static PyObject* const exitName = interned("__exit__");
  return enter(m, enterName, exitName, "'%.200s' object does not support the context manager protocol",
               "'%.200s' object does not support the context manager protocol (missed __exit__ method)");
}

Flow enterAsyncWith(Machine& m) {
  static PyObject* const enterName = interned("__aenter__");
  static PyObject* const exitName = interned("__aexit__");
  return enter(m, enterName, exitName, "'%.200s' object does not support the asynchronous context manager protocol",
               "'%.200s' object does not support the asynchronous context manager protocol (missed __aexit__ method)");
}

// The body raised: exit(type, exception, traceback). The exception is on top, the exit method three below it.
Flow exitWith(Machine& m) {
  PyObject* raised = m.top();
  PyObject* exit = m.top(4);
  const Ref traceback = Ref::steal(PyException_GetTraceback(raised));
  PyObject* arguments[] = {nullptr, PyExceptionInstance_Class(raised), raised, traceback ? traceback.get() : Py_None};
  const Arguments told{.values = arguments + 1, .positional = 3, .names = nullptr};
  if (!m.observer().calls(exit, told)) return Flow::Stop;
  PyObject* result = PyObject_Vectorcall(exit, arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  if (result == nullptr) return Flow::Error;
  m.observer().called(exit, told, result);
  m.push(result);
  return Flow::Next;
}

}  // namespace saker::watch
