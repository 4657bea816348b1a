// Items, slices, and what displays and comprehensions add to their containers.
#include "watch/handlers.h"

namespace saker::watch {

namespace {

Flow outcome(int error) { return error != 0 ? Flow::Error : Flow::Next; }

bool iterable(PyObject* object) { return Py_TYPE(object)->tp_iter != nullptr || PySequence_Check(object) != 0; }

}  // namespace

Flow loadItem(Machine& m) {
  PyObject* container = m.top(2);
  PyObject* key = m.top();
  if (!m.observer().readsItem(container, key)) return Flow::Stop;
  PyObject* value = PyObject_GetItem(container, key);
  if (value != nullptr) m.observer().readItem(container, key, value);
  return m.replace(2, value);
}

Flow storeItem(Machine& m) {
  PyObject* value = m.top(3);
  PyObject* container = m.top(2);
  PyObject* key = m.top();
  if (!m.observer().writesItem(container, key, value)) return Flow::Stop;
  const int error = PyObject_SetItem(container, key, value);
  m.consume(3);
  return outcome(error);
}

Flow deleteItem(Machine& m) {
  if (!m.observer().writesItem(m.top(2), m.top(), nullptr)) return Flow::Stop;
  const int error = PyObject_DelItem(m.top(2), m.top());
  m.consume(2);
  return outcome(error);
}

// container[start:stop]: the slice is made for the occasion.
Flow loadSlice(Machine& m) {
  const Ref slice = Ref::steal(PySlice_New(m.top(2), m.top(), nullptr));
  if (!slice) return Flow::Error;
  PyObject* container = m.top(3);
  if (!m.observer().readsItem(container, slice.get())) return Flow::Stop;
  m.consume(2);
  PyObject* value = PyObject_GetItem(container, slice.get());
  if (value != nullptr) m.observer().readItem(container, slice.get(), value);
  return m.replace(1, value);
}

Flow storeSlice(Machine& m) {
  const Ref slice = Ref::steal(PySlice_New(m.top(2), m.top(), nullptr));
  if (!slice) return Flow::Error;
  PyObject* container = m.top(3);
  PyObject* value = m.top(4);
  if (!m.observer().writesItem(container, slice.get(), value)) return Flow::Stop;
  m.consume(2);
  const int error = PyObject_SetItem(container, slice.get(), value);
  m.consume(2);
  return outcome(error);
}

Flow listAppend(Machine& m) {
  const Ref value = Ref::steal(m.pop());
  return outcome(PyList_Append(m.top(m.arg()), value.get()));
}

Flow setAdd(Machine& m) {
  if (!m.observer().keys(m.top())) return Flow::Stop;
  const Ref value = Ref::steal(m.pop());
  return outcome(PySet_Add(m.top(m.arg()), value.get()));
}

Flow mapAdd(Machine& m) {
  if (!m.observer().keys(m.top(2))) return Flow::Stop;
  const Ref value = Ref::steal(m.pop());
  const Ref key = Ref::steal(m.pop());
  return outcome(PyDict_SetItem(m.top(m.arg()), key.get(), value.get()));
}

Flow listExtend(Machine& m) {
  PyObject* list = m.top(m.arg() + 1);
  if (!m.observer().spreads(m.top(), list)) return Flow::Stop;
  const Ref source = Ref::steal(m.pop());
  const Ref none = Ref::steal(_PyList_Extend(reinterpret_cast<PyListObject*>(list), source.get()));
  if (none) return Flow::Next;
  if (PyErr_ExceptionMatches(PyExc_TypeError) && !iterable(source.get())) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", Py_TYPE(source.get())->tp_name);
  }
  return Flow::Error;
}

Flow setUpdate(Machine& m) {
  PyObject* set = m.top(m.arg() + 1);
  if (!m.observer().spreads(m.top(), set)) return Flow::Stop;
  const Ref source = Ref::steal(m.pop());
  return outcome(_PySet_Update(set, source.get()) < 0 ? -1 : 0);
}

Flow dictUpdate(Machine& m) {
  PyObject* dict = m.top(m.arg() + 1);
  if (!m.observer().spreads(m.top(), dict)) return Flow::Stop;
  const Ref source = Ref::steal(m.pop());
  if (PyDict_Update(dict, source.get()) >= 0) return Flow::Next;
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(source.get())->tp_name);
  }
  return Flow::Error;
}

// The keywords of a call: none may come twice.
Flow dictMerge(Machine& m) {
  PyObject* dict = m.top(m.arg() + 1);
  if (!m.observer().spreads(m.top(), dict)) return Flow::Stop;
  const Ref source = Ref::steal(m.pop());
  if (_PyDict_MergeEx(dict, source.get(), 2) >= 0) return Flow::Next;
  keywordsError(m.top(2 + m.arg()), source.get());
  return Flow::Error;
}

}  // namespace saker::watch
