// await, async for, async generators.
#include "watch/errors.h"
#include "watch/handlers.h"

namespace saker::watch {

namespace {

PyObject* special(const char* text) { return PyUnicode_InternFromString(text); }

int generatorFlags(PyObject* generator) {
#if PY_VERSION_HEX >= 0x030c0000
  const Ref code = Ref::steal(reinterpret_cast<PyObject*>(PyGen_GetCode(reinterpret_cast<PyGenObject*>(generator))));
  return reinterpret_cast<PyCodeObject*>(code.get())->co_flags;
#else
  return reinterpret_cast<PyGenObject*>(generator)->gi_code->co_flags;
#endif
}

bool isCoroutine(PyObject* object) {
  return PyCoro_CheckExact(object) ||
         (PyGen_CheckExact(object) && (generatorFlags(object) & CO_ITERABLE_COROUTINE) != 0);
}

// What `await object` iterates over.
PyObject* awaitableIterator(PyObject* object) {
  if (isCoroutine(object)) return newRef(object);
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_as_async == nullptr || type->tp_as_async->am_await == nullptr) {
    PyErr_Format(PyExc_TypeError, "object %.100s can't be used in 'await' expression", type->tp_name);
    return nullptr;
  }
  Ref iterator = Ref::steal(type->tp_as_async->am_await(object));
  if (!iterator) return nullptr;
  if (isCoroutine(iterator.get())) {
    PyErr_SetString(PyExc_TypeError, "__await__() returned a coroutine");
    return nullptr;
  }
  if (!PyIter_Check(iterator.get())) {
    PyErr_Format(PyExc_TypeError, "__await__() returned non-iterator of type '%.100s'",
                 Py_TYPE(iterator.get())->tp_name);
    return nullptr;
  }
  return iterator.release();
}

// What an `async with` says of an __aenter__ or __aexit__ whose result cannot be awaited.
void explainAwaitable(PyTypeObject* type, int where) {
  if (type->tp_as_async != nullptr && type->tp_as_async->am_await != nullptr) return;
  if (where == 0) return;
  PyErr_Format(PyExc_TypeError, "'async with' received an object from %s that does not implement __await__: %.100s",
               where == 1 ? "__aenter__" : "__aexit__", type->tp_name);
}

bool awaitedAlready(PyObject* coroutine) {
  const Ref other = Ref::steal(PyObject_GetAttrString(coroutine, "cr_await"));
  return other && other.get() != Py_None;
}

}  // namespace

Flow getAwaitable(Machine& m) {
  static PyObject* const name = special("__await__");
  PyObject* object = m.top();
  if (!m.observer().readsSpecial(object, name)) return Flow::Stop;
  Ref iterator = Ref::steal(awaitableIterator(object));
  if (!iterator) explainAwaitable(Py_TYPE(object), m.arg());
  if (iterator && PyCoro_CheckExact(iterator.get()) && awaitedAlready(iterator.get())) {
    iterator = Ref();
    PyErr_SetString(PyExc_RuntimeError, "coroutine is being awaited already");
  }
  return m.replace(1, iterator.release());
}

Flow getAsyncIter(Machine& m) {
  static PyObject* const name = special("__aiter__");
  PyObject* object = m.top();
  PyTypeObject* type = Py_TYPE(object);
  if (!m.observer().readsSpecial(object, name)) return Flow::Stop;
  if (type->tp_as_async == nullptr || type->tp_as_async->am_aiter == nullptr) {
    PyErr_Format(PyExc_TypeError, "'async for' requires an object with __aiter__ method, got %.100s", type->tp_name);
    m.drop();
    return Flow::Error;
  }
  Ref iterator = Ref::steal(type->tp_as_async->am_aiter(object));
  if (iterator) {
    PyTypeObject* found = Py_TYPE(iterator.get());
    if (found->tp_as_async == nullptr || found->tp_as_async->am_anext == nullptr) {
      PyErr_Format(PyExc_TypeError,
                   "'async for' received an object from __aiter__ that does not implement __anext__: %.100s",
                   found->tp_name);
      iterator = Ref();
    }
  }
  return m.replace(1, iterator.release());
}

Flow getAsyncNext(Machine& m) {
  static PyObject* const name = special("__anext__");
  PyObject* iterator = m.top();
  PyTypeObject* type = Py_TYPE(iterator);
  if (!m.observer().readsSpecial(iterator, name)) return Flow::Stop;
  if (type->tp_as_async == nullptr || type->tp_as_async->am_anext == nullptr) {
    PyErr_Format(PyExc_TypeError, "'async for' requires an iterator with __anext__ method, got %.100s", type->tp_name);
    return Flow::Error;
  }
  Ref next = Ref::steal(type->tp_as_async->am_anext(iterator));
  if (!next) return Flow::Error;
  if (!PyAsyncGen_CheckExact(iterator)) {
    PyObject* awaitable = awaitableIterator(next.get());
    if (awaitable == nullptr) {
      _PyErr_FormatFromCause(PyExc_TypeError, "'async for' received an invalid object from __anext__: %.100s",
                             Py_TYPE(next.get())->tp_name);
      return Flow::Error;
    }
    next = Ref::steal(awaitable);
  }
  m.push(next.release());
  return Flow::Next;
}

Flow endAsyncFor(Machine& m) {
  PyObject* raised = m.pop();
  if (PyErr_GivenExceptionMatches(raised, PyExc_StopAsyncIteration)) {
    Py_DECREF(raised);
    m.drop();
    return Flow::Next;
  }
  setRaised(raised);
  return Flow::Reraise;
}

// What an async generator yields travels in a box, apart from what it awaits. CPython makes it in a function that it
// does not export; the type is exported.
Flow wrapAsyncValue(Machine& m) {
  struct Box {
    PyObject_HEAD PyObject* value;
  };
  Box* box = PyObject_GC_New(Box, &_PyAsyncGenWrappedValue_Type);
  if (box == nullptr) return Flow::Error;
  box->value = m.top();
  PyObject_GC_Track(box);
  m.top() = reinterpret_cast<PyObject*>(box);
  return Flow::Next;
}

}  // namespace saker::watch
