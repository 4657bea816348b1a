// Cells: the variables that functions share with the functions inside of them.
#include "watch/errors.h"
#include "watch/handlers.h"

namespace saker::watch {

namespace {

Flow unbound(Machine& m) {
  raiseUnbound(m.frame.code, m.arg());
  return Flow::Error;
}

// In a class body: the namespace's item, or the cell of the enclosing function. New reference, or an exception.
PyObject* nameOrCell(Machine& m, PyObject* names) {
  PyObject* name = PyTuple_GET_ITEM(m.frame.code->co_localsplusnames, m.arg());
  PyObject* value = nullptr;
  if (PyDict_CheckExact(names)) {
    value = PyDict_GetItemWithError(names, name);
    Py_XINCREF(value);
  } else {
    value = PyObject_GetItem(names, name);
    if (value == nullptr && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  }
  if (value != nullptr || PyErr_Occurred() != nullptr) return value;
  PyObject* cell = m.frame.slots[m.arg()];
  value = PyCell_GET(cell);
  if (!m.observer().readsCell(cell, value) && !m.finishUnwatched()) return nullptr;
  if (value == nullptr) {
    raiseUnbound(m.frame.code, m.arg());
    return nullptr;
  }
  return newRef(value);
}

bool tellsName(Machine& m, PyObject* names) {
  PyObject* name = PyTuple_GET_ITEM(m.frame.code->co_localsplusnames, m.arg());
  return m.observer().readsName(names, m.frame.globals, m.frame.builtins, name);
}

}  // namespace

Flow unboundLocal(Machine& m) {
  raiseForName(PyExc_UnboundLocalError, unboundLocalName, PyTuple_GET_ITEM(m.frame.code->co_localsplusnames, m.arg()));
  return Flow::Error;
}

Flow makeCell(Machine& m) {
  PyObject*& slot = m.frame.slots[m.arg()];
  PyObject* value = slot;
  PyObject* cell = PyCell_New(value);
  if (cell == nullptr) return Flow::Error;
  slot = cell;
  Py_XDECREF(value);
  return Flow::Next;
}

Flow copyFreeVars(Machine& m) {
  PyObject* closure = PyFunction_GET_CLOSURE(m.frame.function);
  PyObject** slots = m.frame.bottom - m.arg();
  for (int i = 0; i < m.arg(); ++i) slots[i] = newRef(PyTuple_GET_ITEM(closure, i));
  return Flow::Next;
}

Flow loadCell(Machine& m) {
  PyObject* cell = m.frame.slots[m.arg()];
  PyObject* value = PyCell_GET(cell);
  if (!m.observer().readsCell(cell, value)) return Flow::Stop;
  if (value == nullptr) return unbound(m);
  m.push(newRef(value));
  return Flow::Next;
}

Flow storeCell(Machine& m) {
  PyObject* cell = m.frame.slots[m.arg()];
  if (!m.observer().writesCell(cell, m.top())) return Flow::Stop;
  PyObject* before = PyCell_GET(cell);
  PyCell_SET(cell, m.pop());
  Py_XDECREF(before);
  return Flow::Next;
}

Flow deleteCell(Machine& m) {
  PyObject* cell = m.frame.slots[m.arg()];
  PyObject* before = PyCell_GET(cell);
  if (before == nullptr) return unbound(m);
  if (!m.observer().writesCell(cell, nullptr)) return Flow::Stop;
  PyCell_SET(cell, nullptr);
  Py_DECREF(before);
  return Flow::Next;
}

Flow loadClassCell(Machine& m) {
  PyObject* names = saker_frame_namespace(&m.frame);
  if (!tellsName(m, names)) return Flow::Stop;
  PyObject* value = nameOrCell(m, names);
  if (value == nullptr) return Flow::Error;
  m.push(value);
  return Flow::Next;
}

Flow loadFromDictOrCell(Machine& m) {
  if (!tellsName(m, m.top())) return Flow::Stop;
  return m.replace(1, nameOrCell(m, m.top()));
}

}  // namespace saker::watch
