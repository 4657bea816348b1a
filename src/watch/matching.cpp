// match statements.
#include "watch/handlers.h"

namespace saker::watch {

namespace {

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

const char* nameOf(PyObject* type) { return reinterpret_cast<PyTypeObject*>(type)->tp_name; }

// Each key or attribute may be asked for once.
bool first(PyObject* seen, PyObject* item) { return PySet_Contains(seen, item) == 0 && PySet_Add(seen, item) == 0; }

// Appends an attribute of the subject. False: it has none, or an exception is set.
bool appendAttribute(Machine& m, PyObject* subject, PyObject* type, PyObject* name, PyObject* seen, PyObject* values) {
  if (!first(seen, name)) {
    if (PyErr_Occurred() == nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R", nameOf(type), name);
    }
    return false;
  }
  if (!m.observer().readsAttribute(subject, name) && !m.finishUnwatched()) return false;
  PyObject* value = nullptr;
  if (_PyObject_LookupAttr(subject, name, &value) <= 0) return false;
  const Ref owned = Ref::steal(value);
  m.observer().readAttribute(subject, name, value);
  return PyList_Append(values, value) == 0;
}

// The attributes that positional patterns stand for: __match_args__. `self`: one pattern that takes the subject itself.
PyObject* positionalNames(PyObject* type, bool& self) {
  static PyObject* const name = interned("__match_args__");
  self = false;
  PyObject* names = nullptr;
  if (_PyObject_LookupAttr(type, name, &names) < 0) return nullptr;
  if (names == nullptr) {
    self = PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), _Py_TPFLAGS_MATCH_SELF) != 0;
    return PyTuple_New(0);
  }
  if (PyTuple_CheckExact(names)) return names;
  PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", nameOf(type), Py_TYPE(names)->tp_name);
  Py_DECREF(names);
  return nullptr;
}

bool appendPositional(Machine& m, PyObject* subject, PyObject* type, Py_ssize_t count, PyObject* seen,
                      PyObject* values) {
  bool self = false;
  const Ref names = Ref::steal(positionalNames(type, self));
  if (!names) return false;
  const Py_ssize_t allowed = self ? 1 : PyTuple_GET_SIZE(names.get());
  if (allowed < count) {
    PyErr_Format(PyExc_TypeError, "%s() accepts %d positional sub-pattern%s (%d given)", nameOf(type),
                 static_cast<int>(allowed), allowed == 1 ? "" : "s", static_cast<int>(count));
    return false;
  }
  if (self) return PyList_Append(values, subject) == 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    if (!PyUnicode_CheckExact(name)) {
      PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(name)->tp_name);
      return false;
    }
    if (!appendAttribute(m, subject, type, name, seen, values)) return false;
  }
  return true;
}

// The attributes a class pattern binds, as a tuple. nullptr: no match, or an exception is set.
PyObject* classAttributes(Machine& m, PyObject* subject, PyObject* type, PyObject* names) {
  if (!PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "called match pattern must be a class");
    return nullptr;
  }
  if (PyObject_IsInstance(subject, type) <= 0) return nullptr;
  const Ref seen = Ref::steal(PySet_New(nullptr));
  const Ref values = Ref::steal(PyList_New(0));
  if (!seen || !values) return nullptr;
  if (m.arg() != 0 && !appendPositional(m, subject, type, m.arg(), seen.get(), values.get())) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    if (!appendAttribute(m, subject, type, PyTuple_GET_ITEM(names, i), seen.get(), values.get())) return nullptr;
  }
  return PyList_AsTuple(values.get());
}

// The values of a mapping pattern's keys as a tuple, or None if one is missing; nullptr with an exception.
PyObject* valuesOf(PyObject* mapping, PyObject* keys) {
  static PyObject* const name = interned("get");
  const Py_ssize_t count = PyTuple_GET_SIZE(keys);
  if (count == 0) return PyTuple_New(0);
  PyObject* found = nullptr;
  const bool unbound = _PyObject_GetMethod(mapping, name, &found) != 0;
  const Ref get = Ref::steal(found);
  const Ref seen = Ref::steal(get ? PySet_New(nullptr) : nullptr);
  const Ref missing = Ref::steal(seen ? PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)) : nullptr);
  Ref values = Ref::steal(missing ? PyTuple_New(count) : nullptr);
  if (!values) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    if (!first(seen.get(), key)) {
      if (PyErr_Occurred() == nullptr) PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
      return nullptr;
    }
    PyObject* arguments[] = {mapping, key, missing.get()};
    PyObject* value = unbound ? PyObject_Vectorcall(get.get(), arguments, 3, nullptr)
                              : PyObject_Vectorcall(get.get(), arguments + 1, 2, nullptr);
    if (value == nullptr) return nullptr;
    if (value == missing.get()) {
      Py_DECREF(value);
      return newRef(Py_None);
    }
    PyTuple_SET_ITEM(values.get(), i, value);
  }
  return values.release();
}

}  // namespace

Flow getLength(Machine& m) {
  if (!m.observer().spreads(m.top(), nullptr)) return Flow::Stop;
  const Py_ssize_t length = PyObject_Length(m.top());
  if (length < 0) return Flow::Error;
  PyObject* number = PyLong_FromSsize_t(length);
  if (number == nullptr) return Flow::Error;
  m.push(number);
  return Flow::Next;
}

Flow matchMapping(Machine& m) {
  if (!m.observer().matches(m.top(), nullptr, nullptr)) return Flow::Stop;
  m.push(truth(PyType_HasFeature(Py_TYPE(m.top()), Py_TPFLAGS_MAPPING) != 0));
  return Flow::Next;
}

Flow matchSequence(Machine& m) {
  if (!m.observer().matches(m.top(), nullptr, nullptr)) return Flow::Stop;
  m.push(truth(PyType_HasFeature(Py_TYPE(m.top()), Py_TPFLAGS_SEQUENCE) != 0));
  return Flow::Next;
}

Flow matchKeys(Machine& m) {
  if (!m.observer().matches(m.top(2), nullptr, m.top())) return Flow::Stop;
  PyObject* values = valuesOf(m.top(2), m.top());
  if (values == nullptr) return Flow::Error;
  m.push(values);
  return Flow::Next;
}

// Operands: subject, class, names of the keyword patterns; `arg` positional patterns. The result takes their place.
Flow matchClass(Machine& m) {
  PyObject* subject = m.top(3);
  PyObject* type = m.top(2);
  PyObject* names = m.top();
  if (!m.observer().matches(subject, type, names)) return Flow::Stop;
  PyObject* values = classAttributes(m, subject, type, names);
  if (values == nullptr && PyErr_Occurred() == nullptr) values = newRef(Py_None);
  m.drop(2);
  return m.replace(1, values);
}

}  // namespace saker::watch
