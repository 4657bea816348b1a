// a, b = x and a, *b, c = x.
#include "watch/handlers.h"

namespace saker::watch {

namespace {

// Takes `before` elements of `source`, then, unless `after` is negative, a list of the rest and its last `after`
// elements. They are pushed so that the first one is on top. On an error nothing is left.
bool unpackIterable(Machine& m, PyObject* source, int before, int after) {
  const Ref iterator = Ref::steal(PyObject_GetIter(source));
  if (!iterator) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) && Py_TYPE(source)->tp_iter == nullptr &&
        PySequence_Check(source) == 0) {
      PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(source)->tp_name);
    }
    return false;
  }
  const int total = after < 0 ? before : before + 1 + after;
  PyObject** const above = m.sp + total;
  PyObject** place = above;
  const auto fail = [&] {
    for (; place < above; ++place) Py_DECREF(*place);
    return false;
  };
  for (int i = 0; i < before; ++i) {
    PyObject* item = PyIter_Next(iterator.get());
    if (item == nullptr) {
      if (PyErr_Occurred() != nullptr) return fail();
      if (after < 0) {
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %d)", before, i);
      } else {
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %d)", before + after, i);
      }
      return fail();
    }
    *--place = item;
  }
  if (after < 0) {
    const Ref surplus = Ref::steal(PyIter_Next(iterator.get()));
    if (surplus) PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
    if (surplus || PyErr_Occurred() != nullptr) return fail();
    m.sp = above;
    return true;
  }
  PyObject* rest = PySequence_List(iterator.get());
  if (rest == nullptr) return fail();
  *--place = rest;
  const Py_ssize_t length = PyList_GET_SIZE(rest);
  if (length < after) {
    PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after,
                 before + length);
    return fail();
  }
  for (int i = after; i > 0; --i) *--place = PyList_GET_ITEM(rest, length - i);
  Py_SET_SIZE(reinterpret_cast<PyVarObject*>(rest), length - after);  // the stack owns them now
  m.sp = above;
  return true;
}

}  // namespace

Flow unpack(Machine& m) {
  const int count = m.arg();
  if (!m.observer().spreads(m.top(), nullptr)) return Flow::Stop;
  const Ref source = Ref::steal(m.pop());
  PyObject* const* items = nullptr;
  if (PyTuple_CheckExact(source.get()) && PyTuple_GET_SIZE(source.get()) == count) {
    items = reinterpret_cast<PyTupleObject*>(source.get())->ob_item;
  } else if (PyList_CheckExact(source.get()) && PyList_GET_SIZE(source.get()) == count) {
    items = reinterpret_cast<PyListObject*>(source.get())->ob_item;
  } else {
    return unpackIterable(m, source.get(), count, -1) ? Flow::Next : Flow::Error;
  }
  for (int i = count - 1; i >= 0; --i) m.push(newRef(items[i]));
  return Flow::Next;
}

Flow unpackStarred(Machine& m) {
  if (!m.observer().spreads(m.top(), nullptr)) return Flow::Stop;
  const Ref source = Ref::steal(m.pop());
  return unpackIterable(m, source.get(), m.arg() & 0xff, m.arg() >> 8) ? Flow::Next : Flow::Error;
}

}  // namespace saker::watch
