// Displays: new containers from operands.
#include "watch/handlers.h"

namespace saker::watch {

Flow buildTuple(Machine& m) {
  const int count = m.arg();
  PyObject* tuple = PyTuple_New(count);
  if (tuple == nullptr) return Flow::Error;
  for (int i = count - 1; i >= 0; --i) PyTuple_SET_ITEM(tuple, i, m.pop());
  m.push(tuple);
  return Flow::Next;
}

Flow buildList(Machine& m) {
  const int count = m.arg();
  PyObject* list = PyList_New(count);
  if (list == nullptr) return Flow::Error;
  for (int i = count - 1; i >= 0; --i) PyList_SET_ITEM(list, i, m.pop());
  m.push(list);
  return Flow::Next;
}

Flow buildSet(Machine& m) {
  const int count = m.arg();
  for (int i = count; i > 0; --i) {
    if (!m.observer().keys(m.top(i))) return Flow::Stop;
  }
  Ref set = Ref::steal(PySet_New(nullptr));
  if (!set) return Flow::Error;
  int error = 0;
  m.sp -= count;
  for (int i = 0; i < count; ++i) {
    const Ref item = Ref::steal(m.sp[i]);
    if (error == 0) error = PySet_Add(set.get(), item.get());
  }
  if (error != 0) return Flow::Error;
  m.push(set.release());
  return Flow::Next;
}

Flow buildMap(Machine& m) {
  const int count = m.arg();
  Ref dict = Ref::steal(PyDict_New());
  if (!dict) return Flow::Error;
  PyObject** items = m.sp - 2 * count;
  for (int i = 0; i < count; ++i) {
    if (!m.observer().keys(items[2 * i])) return Flow::Stop;
  }
  for (int i = 0; i < count; ++i) {
    if (PyDict_SetItem(dict.get(), items[2 * i], items[2 * i + 1]) != 0) return Flow::Error;
  }
  m.drop(2 * count);
  m.push(dict.release());
  return Flow::Next;
}

Flow buildConstKeyMap(Machine& m) {
  const int count = m.arg();
  Ref dict = Ref::steal(PyDict_New());
  if (!dict) return Flow::Error;
  PyObject* keys = m.top();
  PyObject** values = m.sp - 1 - count;
  for (int i = 0; i < count; ++i) {
    if (PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(keys, i), values[i]) != 0) return Flow::Error;
  }
  m.drop(count + 1);
  m.push(dict.release());
  return Flow::Next;
}

Flow buildString(Machine& m) {
  static PyObject* const empty = PyUnicode_FromString("");
  PyObject* text = _PyUnicode_JoinArray(empty, m.sp - m.arg(), m.arg());
  if (text == nullptr) return Flow::Error;
  m.drop(m.arg());
  m.push(text);
  return Flow::Next;
}

Flow buildSlice(Machine& m) {
  const bool stepped = m.arg() == 3;
  PyObject** operands = m.sp - m.arg();
  return m.replace(m.arg(), PySlice_New(operands[0], operands[1], stepped ? operands[2] : nullptr));
}

Flow listToTuple(Machine& m) { return m.replace(1, PyList_AsTuple(m.top())); }

}  // namespace saker::watch
