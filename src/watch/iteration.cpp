// for loops.
#include "watch/handlers.h"

namespace saker::watch {

Flow getIter(Machine& m) {
  PyObject* iterable = m.top();
  if (!m.observer().iterates(iterable)) return Flow::Stop;
  PyObject* iterator = PyObject_GetIter(iterable);
  if (iterator != nullptr) m.observer().iterated(iterable, iterator);
  return m.replace(1, iterator);
}

Flow forIter(Machine& m) {
  PyObject* iterator = m.top();
  if (!m.observer().advances(iterator)) return Flow::Stop;
  PyObject* item = Py_TYPE(iterator)->tp_iternext(iterator);
  if (item == nullptr) {
    if (PyErr_Occurred() != nullptr) {
      if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return Flow::Error;
      saker_frame_exhausted(&m.frame, m.index());
      PyErr_Clear();
    }
    m.observer().advanced(iterator, nullptr);
    m.drop();
    m.jump();
    return Flow::Next;
  }
  m.observer().advanced(iterator, item);
  m.push(item);
  return Flow::Next;
}

}  // namespace saker::watch
