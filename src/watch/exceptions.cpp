// raise, except.
#include "watch/errors.h"
#include "watch/handlers.h"

namespace saker::watch {

bool validClasses(PyObject* classes) {
  const auto valid = [](PyObject* object) { return PyExceptionClass_Check(object) != 0; };
  bool all = true;
  if (PyTuple_Check(classes)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes); ++i) all = all && valid(PyTuple_GET_ITEM(classes, i));
  } else {
    all = valid(classes);
  }
  if (!all) {
    PyErr_SetString(PyExc_TypeError, "catching classes that do not inherit from BaseException is not allowed");
  }
  return all;
}

namespace {

Flow raiseAgain() {
  PyObject* handled = PyErr_GetHandledException();
  if (handled == nullptr || handled == Py_None) {
    Py_XDECREF(handled);
    PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
    return Flow::Error;
  }
  setRaised(handled);
  return Flow::Reraise;
}

// An instance from what stands behind `raise`: an instance or a class. nullptr with an exception.
PyObject* instanceOf(PyObject* raised) {
  if (PyExceptionInstance_Check(raised)) return newRef(raised);
  if (!PyExceptionClass_Check(raised)) {
    PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
    return nullptr;
  }
  PyObject* made = PyObject_CallNoArgs(raised);
  if (made == nullptr || PyExceptionInstance_Check(made)) return made;
  PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", raised,
               Py_TYPE(made));
  Py_DECREF(made);
  return nullptr;
}

bool setCause(PyObject* exception, PyObject* cause) {
  PyObject* instance = nullptr;
  if (PyExceptionClass_Check(cause)) {
    instance = PyObject_CallNoArgs(cause);
    if (instance == nullptr) return false;
  } else if (PyExceptionInstance_Check(cause)) {
    instance = newRef(cause);
  } else if (cause != Py_None) {
    PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
    return false;
  }
  PyException_SetCause(exception, instance);
  return true;
}

}  // namespace

// The thread's own slot, not the topmost handled exception: that may belong to the caller of this generator.
Flow pushException(Machine& m) {
  PyObject* raised = m.pop();
  PyObject*& slot = m.frame.thread->exc_info->exc_value;
  m.push(slot != nullptr ? slot : newRef(Py_None));
  m.push(newRef(raised));
  slot = raised;
  return Flow::Next;
}

Flow popException(Machine& m) {
  PyObject*& slot = m.frame.thread->exc_info->exc_value;
  PyObject* handled = slot;
  slot = m.pop();
  Py_XDECREF(handled);
  return Flow::Next;
}

Flow matchException(Machine& m) {
  PyObject* classes = m.top();
  PyObject* raised = m.top(2);
  if (!m.observer().catches(raised, classes)) return Flow::Stop;
  const Ref owned = Ref::steal(m.pop());
  if (!validClasses(classes)) return Flow::Error;
  m.push(truth(PyErr_GivenExceptionMatches(raised, classes) != 0));
  return Flow::Next;
}

Flow raise(Machine& m) {
  const int count = m.arg();
  PyObject* told = count >= 1 ? m.top(count) : nullptr;
  PyObject* toldCause = count == 2 ? m.top() : nullptr;
  if (!m.observer().raises(told, toldCause)) return Flow::Stop;
  const Ref cause = Ref::steal(count == 2 ? m.pop() : nullptr);
  const Ref raised = Ref::steal(count >= 1 ? m.pop() : nullptr);
  if (!raised) return raiseAgain();
  const Ref instance = Ref::steal(instanceOf(raised.get()));
  if (!instance || (cause && !setCause(instance.get(), cause.get()))) return Flow::Error;
  PyErr_SetObject(PyExceptionClass_Check(raised.get()) ? raised.get() : PyExceptionInstance_Class(instance.get()),
                  instance.get());
  return Flow::Error;
}

// With an operand, the instruction that had raised is on the stack: the frame shows its line.
Flow reraise(Machine& m) {
  if (m.arg() != 0) *m.frame.position = m.frame.units + PyLong_AsLong(m.top(m.arg() + 1));
  setRaised(m.pop());
  return Flow::Reraise;
}

}  // namespace saker::watch
