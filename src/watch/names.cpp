// Globals, and the names of class bodies, modules and exec.
#include "watch/errors.h"
#include "watch/handlers.h"

namespace saker::watch {

namespace {

// dict[name] as a new reference; nullptr without an exception if there is none.
PyObject* lookUp(PyObject* mapping, PyObject* name) {
  if (PyDict_CheckExact(mapping)) {
    PyObject* value = PyDict_GetItemWithError(mapping, name);
    return Py_XNewRef(value);
  }
  PyObject* value = PyObject_GetItem(mapping, name);
  if (value == nullptr && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return value;
}

PyObject* lookUpGlobal(Machine& m, PyObject* name) {
  PyObject* value = lookUp(m.frame.globals, name);
  if (value != nullptr || PyErr_Occurred() != nullptr) return value;
  value = lookUp(m.frame.builtins, name);
  if (value == nullptr && PyErr_Occurred() == nullptr) raiseForName(PyExc_NameError, unknownName, name);
  return value;
}

PyObject* internedName(const char* text) { return PyUnicode_InternFromString(text); }

Flow noNamespace(const char* format, PyObject* name) {
  PyErr_Format(PyExc_SystemError, format, name);
  return Flow::Error;
}

// A name of a module or of exec is a global; one of a class body is an item of its namespace.
bool tellsWrite(Machine& m, PyObject* names, PyObject* name, PyObject* valueOrNull) {
  if (names == m.frame.globals) return m.observer().writesGlobal(names, name, valueOrNull);
  return m.observer().writesItem(names, name, valueOrNull);
}

}  // namespace

Flow loadGlobal(Machine& m) {
  PyObject* name = m.name();
  PyObject* value = nullptr;
  if (PyDict_CheckExact(m.frame.globals) && PyDict_CheckExact(m.frame.builtins)) [[likely]] {
    const Py_hash_t hash = reinterpret_cast<PyASCIIObject*>(name)->hash;  // names of code objects are interned
    value = _PyDict_GetItem_KnownHash(m.frame.globals, name, hash);
    if (value == nullptr && PyErr_Occurred() == nullptr) {
      value = _PyDict_GetItem_KnownHash(m.frame.builtins, name, hash);
      if (value == nullptr && PyErr_Occurred() == nullptr) raiseForName(PyExc_NameError, unknownName, name);
    }
    Py_XINCREF(value);
  } else {
    value = lookUpGlobal(m, name);
  }
  if (value == nullptr) return Flow::Error;
  if (!m.observer().readsGlobal(m.frame.globals, m.frame.builtins, name, value)) {
    Py_DECREF(value);
    return Flow::Stop;
  }
  if (m.at->extra != 0) m.push(nullptr);
  m.push(value);
  return Flow::Next;
}

Flow storeGlobal(Machine& m) {
  PyObject* value = m.top();
  if (!m.observer().writesGlobal(m.frame.globals, m.name(), value)) return Flow::Stop;
  const int error = PyDict_SetItem(m.frame.globals, m.name(), value);
  m.drop();
  return error != 0 ? Flow::Error : Flow::Next;
}

Flow deleteGlobal(Machine& m) {
  if (!m.observer().writesGlobal(m.frame.globals, m.name(), nullptr)) return Flow::Stop;
  if (PyDict_DelItem(m.frame.globals, m.name()) == 0) return Flow::Next;
  if (PyErr_ExceptionMatches(PyExc_KeyError)) raiseForName(PyExc_NameError, unknownName, m.name());
  return Flow::Error;
}

Flow loadName(Machine& m) {
  PyObject* names = saker_frame_namespace(&m.frame);
  PyObject* name = m.name();
  if (names == nullptr) return noNamespace("no locals when loading %R", name);
  if (!m.observer().readsName(names, m.frame.globals, m.frame.builtins, name)) return Flow::Stop;
  PyObject* value = lookUp(names, name);
  if (value == nullptr && PyErr_Occurred() == nullptr) value = lookUpGlobal(m, name);
  if (value == nullptr) return Flow::Error;
  m.push(value);
  return Flow::Next;
}

Flow storeName(Machine& m) {
  PyObject* names = saker_frame_namespace(&m.frame);
  PyObject* value = m.top();
  if (names == nullptr) return noNamespace("no locals found when storing %R", m.name());
  if (!tellsWrite(m, names, m.name(), value)) return Flow::Stop;
  const int error =
      PyDict_CheckExact(names) ? PyDict_SetItem(names, m.name(), value) : PyObject_SetItem(names, m.name(), value);
  m.drop();
  return error != 0 ? Flow::Error : Flow::Next;
}

Flow deleteName(Machine& m) {
  PyObject* names = saker_frame_namespace(&m.frame);
  if (names == nullptr) return noNamespace("no locals when deleting %R", m.name());
  if (!tellsWrite(m, names, m.name(), nullptr)) return Flow::Stop;
  if (PyObject_DelItem(names, m.name()) == 0) return Flow::Next;
  raiseForName(PyExc_NameError, unknownName, m.name());
  return Flow::Error;
}

Flow loadNamespace(Machine& m) {
  PyObject* names = saker_frame_namespace(&m.frame);
  if (names == nullptr) {
    PyErr_SetString(PyExc_SystemError, "no locals");
    return Flow::Error;
  }
  m.push(newRef(names));
  return Flow::Next;
}

Flow loadFromDictOrGlobals(Machine& m) {
  PyObject* names = m.top();
  PyObject* name = m.name();
  if (!m.observer().readsName(names, m.frame.globals, m.frame.builtins, name)) return Flow::Stop;
  PyObject* value = lookUp(names, name);
  if (value == nullptr && PyErr_Occurred() == nullptr) value = lookUpGlobal(m, name);
  return m.replace(1, value);
}

Flow loadBuildClass(Machine& m) {
  static PyObject* const name = internedName("__build_class__");
  PyObject* value = lookUp(m.frame.builtins, name);
  if (value == nullptr) {
    if (PyErr_Occurred() == nullptr) PyErr_SetString(PyExc_NameError, "__build_class__ not found");
    return Flow::Error;
  }
  m.push(value);
  return Flow::Next;
}

Flow setupAnnotations(Machine& m) {
  static PyObject* const name = internedName("__annotations__");
  PyObject* names = saker_frame_namespace(&m.frame);
  if (names == nullptr) {
    PyErr_SetString(PyExc_SystemError, "no locals found when setting up annotations");
    return Flow::Error;
  }
  if (!m.observer().readsName(names, m.frame.globals, m.frame.builtins, name)) return Flow::Stop;
  const Ref known = Ref::steal(lookUp(names, name));
  if (known) return Flow::Next;
  if (PyErr_Occurred() != nullptr) return Flow::Error;
  const Ref made = Ref::steal(PyDict_New());
  if (!made) return Flow::Error;
  if (!tellsWrite(m, names, name, made.get()) && !m.finishUnwatched()) return Flow::Error;
  const int error =
      PyDict_CheckExact(names) ? PyDict_SetItem(names, name, made.get()) : PyObject_SetItem(names, name, made.get());
  return error != 0 ? Flow::Error : Flow::Next;
}

}  // namespace saker::watch
