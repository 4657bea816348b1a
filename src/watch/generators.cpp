// yield, yield from.
#include "watch/errors.h"
#include "watch/handlers.h"

namespace saker::watch {

Flow getYieldFromIter(Machine& m) {
  PyObject* iterable = m.top();
  if (!m.observer().iterates(iterable)) return Flow::Stop;
  if (PyCoro_CheckExact(iterable)) {
    if ((m.frame.code->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) == 0) {
      PyErr_SetString(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
      m.drop();
      return Flow::Error;
    }
    m.observer().iterated(iterable, iterable);
    return Flow::Next;
  }
  if (PyGen_CheckExact(iterable)) {
    m.observer().iterated(iterable, iterable);
    return Flow::Next;
  }
  PyObject* iterator = PyObject_GetIter(iterable);
  if (iterator != nullptr) m.observer().iterated(iterable, iterator);
  return m.replace(1, iterator);
}

// Sends the top of the stack to the iterator below it. When that is at its end, its result takes the place of the value
// sent (`extra`: the iterator stays below) or of both.
Flow send(Machine& m) {
  PyObject* value = m.top();
  PyObject* receiver = m.top(2);
  if (!m.observer().advances(receiver)) return Flow::Stop;
  PyObject* result = nullptr;
  const PySendResult sent = PyIter_Send(receiver, value, &result);
  if (sent == PYGEN_ERROR) return Flow::Error;
  m.observer().advanced(receiver, sent == PYGEN_NEXT ? result : nullptr);
  m.top() = result;
  Py_DECREF(value);
  if (sent == PYGEN_NEXT) return Flow::Next;
  if (m.at->extra == 0) {
    m.pop();
    m.top() = result;
    Py_DECREF(receiver);
  }
  m.jump();
  return Flow::Next;
}

// throw() on a generator that waits in a yield from, whose iterator answered with StopIteration: its value is the
// result.
Flow cleanupThrow(Machine& m) {
  PyObject* raised = m.top();
  if (!PyErr_GivenExceptionMatches(raised, PyExc_StopIteration)) {
    setRaised(m.pop());
    return Flow::Reraise;
  }
  PyObject* value = newRef(reinterpret_cast<PyStopIterationObject*>(raised)->value);
  m.drop(3);
  m.push(newRef(Py_None));
  m.push(value);
  return Flow::Next;
}

// A StopIteration must not leave a generator: it becomes a RuntimeError.
Flow stopIterationError(Machine& m) {
  PyObject* raised = m.top();
  const int flags = m.frame.code->co_flags;
  const char* text = nullptr;
  if (PyErr_GivenExceptionMatches(raised, PyExc_StopIteration)) {
    text = (flags & CO_ASYNC_GENERATOR) != 0 ? "async generator raised StopIteration"
           : (flags & CO_COROUTINE) != 0     ? "coroutine raised StopIteration"
                                             : "generator raised StopIteration";
  } else if ((flags & CO_ASYNC_GENERATOR) != 0 && PyErr_GivenExceptionMatches(raised, PyExc_StopAsyncIteration)) {
    text = "async generator raised StopAsyncIteration";
  }
  if (text == nullptr) return Flow::Next;
  PyObject* error = PyObject_CallFunction(PyExc_RuntimeError, "s", text);
  if (error != nullptr) {
    PyException_SetCause(error, newRef(raised));
    PyException_SetContext(error, newRef(raised));
  }
  return m.replace(1, error);
}

}  // namespace saker::watch
