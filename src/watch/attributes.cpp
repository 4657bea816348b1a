// Attributes, and the methods that are called at once.
#include "watch/handlers.h"

namespace saker::watch {

Flow loadAttribute(Machine& m) {
  PyObject* owner = m.top();
  PyObject* name = m.name();
  if (!m.observer().readsAttribute(owner, name)) return Flow::Stop;
  PyObject* value = PyObject_GetAttr(owner, name);
  if (value == nullptr) return Flow::Error;
  m.observer().readAttribute(owner, name, value);
  m.top() = value;
  Py_DECREF(owner);
  return Flow::Next;
}

// A function found on the type stays apart from its self, so that no bound method is made: function, self. Anything
// else is called as it is: nullptr, callable.
Flow loadMethod(Machine& m) {
  PyObject* owner = m.top();
  PyObject* name = m.name();
  if (!m.observer().readsAttribute(owner, name)) return Flow::Stop;
  PyObject* value = nullptr;
  const int unbound = _PyObject_GetMethod(owner, name, &value);
  if (value == nullptr) return Flow::Error;
  m.observer().readAttribute(owner, name, value);
  if (unbound != 0) {
    m.top() = value;
    m.push(owner);
  } else {
    m.top() = nullptr;
    m.push(value);
    Py_DECREF(owner);
  }
  return Flow::Next;
}

// super().name and super(cls, self).name: operands super, class, self. `extra`: 1 a method, 2 with two arguments.
Flow loadSuper(Machine& m) {
  PyObject* super = m.top(3);
  PyObject* arguments[] = {nullptr, m.top(2), m.top(1)};
  const size_t count = (m.at->extra & 2) != 0 ? 2 : 0;  // without arguments it looks at this frame
  const Arguments told{.values = arguments + 1, .positional = count, .names = nullptr};
  if (!m.observer().calls(super, told)) return Flow::Stop;
  const Ref bound =
      Ref::steal(PyObject_Vectorcall(super, arguments + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
  PyObject* value = nullptr;
  if (bound) {
    m.observer().called(super, told, bound.get());
    if (m.observer().readsAttribute(bound.get(), m.name()) || m.finishUnwatched()) {
      value = PyObject_GetAttr(bound.get(), m.name());
    }
    if (value != nullptr) m.observer().readAttribute(bound.get(), m.name(), value);
  }
  m.consume(3);
  if (value == nullptr) return Flow::Error;
  if ((m.at->extra & 1) != 0) m.push(nullptr);
  m.push(value);
  return Flow::Next;
}

Flow storeAttribute(Machine& m) {
  PyObject* owner = m.top();
  PyObject* value = m.top(2);
  if (!m.observer().writesAttribute(owner, m.name(), value)) return Flow::Stop;
  const int error = PyObject_SetAttr(owner, m.name(), value);
  m.consume(2);
  return error != 0 ? Flow::Error : Flow::Next;
}

Flow deleteAttribute(Machine& m) {
  PyObject* owner = m.top();
  if (!m.observer().writesAttribute(owner, m.name(), nullptr)) return Flow::Stop;
  const int error = PyObject_SetAttr(owner, m.name(), nullptr);
  m.drop();
  return error != 0 ? Flow::Error : Flow::Next;
}

}  // namespace saker::watch
