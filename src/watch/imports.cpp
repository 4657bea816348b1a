// import a, from a import b, from a import *.
#include "watch/errors.h"
#include "watch/handlers.h"

namespace saker::watch {

namespace {

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// __import__ of the builtins, borrowed.
PyObject* importFunction(Machine& m) {
  static PyObject* const name = interned("__import__");
  PyObject* function = PyDict_CheckExact(m.frame.builtins) ? PyDict_GetItemWithError(m.frame.builtins, name) : nullptr;
  if (function == nullptr && PyErr_Occurred() == nullptr) {
    PyErr_SetString(PyExc_ImportError, "__import__ not found");
  }
  return function;
}

PyObject* importModule(Machine& m, PyObject* name, PyObject* fromlist, PyObject* level) {
  PyObject* function = importFunction(m);
  if (function == nullptr) return nullptr;
  PyObject* names = saker_frame_namespace(&m.frame);
  if (names == nullptr) names = Py_None;
  if (function == saker_import_function(m.frame.thread)) {
    const int number = _PyLong_AsInt(level);
    if (number == -1 && PyErr_Occurred() != nullptr) return nullptr;
    return PyImport_ImportModuleLevelObject(name, m.frame.globals, names, fromlist, number);
  }
  const Ref alive = Ref::steal(newRef(function));
  PyObject* arguments[] = {nullptr, name, m.frame.globals, names, fromlist, level};
  return PyObject_Vectorcall(function, arguments + 1, 5 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
}

bool initializing(PyObject* module) {
  const Ref specification = Ref::steal(PyObject_GetAttrString(module, "__spec__"));
  const Ref flag = Ref::steal(specification ? PyObject_GetAttrString(specification.get(), "_initializing") : nullptr);
  const int answer = flag ? PyObject_IsTrue(flag.get()) : 0;
  PyErr_Clear();
  return answer > 0;
}

void raiseCannotImport(PyObject* module, PyObject* package, PyObject* name) {
  const Ref unknown = Ref::steal(PyUnicode_FromString("<unknown module name>"));
  PyObject* shown = package != nullptr ? package : unknown.get();
  const Ref path = Ref::steal(PyModule_GetFilenameObject(module));
  Ref text;
  if (!path || !PyUnicode_Check(path.get())) {
    PyErr_Clear();
    text = Ref::steal(PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name, shown));
  } else {
    const char* format = initializing(module)
                             ? "cannot import name %R from partially initialized module %R (most likely due to a "
                               "circular import) (%S)"
                             : "cannot import name %R from %R (%S)";
    text = Ref::steal(PyUnicode_FromFormat(format, name, shown, path.get()));
  }
  PyErr_SetImportError(text.get(), package, path ? path.get() : nullptr);
#if PY_VERSION_HEX >= 0x030c0000
  PyObject* raised = takeRaised();
  if (PyErr_GivenExceptionMatches(raised, PyExc_ImportError)) {
    auto* error = reinterpret_cast<PyImportErrorObject*>(raised);
    Py_XSETREF(error->name_from, Py_NewRef(name));
  }
  setRaised(raised);
#endif
}

// The module's attribute, or a submodule of that name that has been imported.
PyObject* memberOf(PyObject* module, PyObject* name) {
  PyObject* value = nullptr;
  if (_PyObject_LookupAttr(module, name, &value) != 0) return value;
  Ref package = Ref::steal(PyObject_GetAttrString(module, "__name__"));
  if (!package || !PyUnicode_Check(package.get())) {
    raiseCannotImport(module, nullptr, name);
    return nullptr;
  }
  const Ref whole = Ref::steal(PyUnicode_FromFormat("%U.%U", package.get(), name));
  if (!whole) return nullptr;
  value = PyImport_GetModule(whole.get());
  if (value == nullptr && PyErr_Occurred() == nullptr) raiseCannotImport(module, package.get(), name);
  return value;
}

// The names that `from module import *` takes; `all` says whether the module lists them itself.
PyObject* publicNames(PyObject* module, bool& all) {
  static PyObject* const listed = interned("__all__");
  static PyObject* const dict = interned("__dict__");
  PyObject* names = nullptr;
  if (_PyObject_LookupAttr(module, listed, &names) < 0) return nullptr;
  all = names != nullptr;
  if (all) return names;
  PyObject* found = nullptr;
  if (_PyObject_LookupAttr(module, dict, &found) < 0) return nullptr;
  if (found == nullptr) {
    PyErr_SetString(PyExc_ImportError, "from-import-* object has no __dict__ and no __all__");
    return nullptr;
  }
  const Ref owned = Ref::steal(found);
  return PyMapping_Keys(found);
}

void raiseBadName(PyObject* module, PyObject* name, bool all) {
  const Ref package = Ref::steal(PyObject_GetAttrString(module, "__name__"));
  if (!package) return;
  if (!PyUnicode_Check(package.get())) {
    PyErr_Format(PyExc_TypeError, "module __name__ must be a string, not %.100s", Py_TYPE(package.get())->tp_name);
    return;
  }
  PyErr_Format(PyExc_TypeError, "%s in %U.%s must be str, not %.100s", all ? "Item" : "Key", package.get(),
               all ? "__all__" : "__dict__", Py_TYPE(name)->tp_name);
}

bool importAll(PyObject* module, PyObject* names) {
  bool listed = false;
  const Ref all = Ref::steal(publicNames(module, listed));
  if (!all) return false;
  for (Py_ssize_t i = 0;; ++i) {
    const Ref name = Ref::steal(PySequence_GetItem(all.get(), i));
    if (!name) {
      if (!PyErr_ExceptionMatches(PyExc_IndexError)) return false;
      PyErr_Clear();
      return true;
    }
    if (!PyUnicode_Check(name.get())) {
      raiseBadName(module, name.get(), listed);
      return false;
    }
    if (!listed && PyUnicode_GET_LENGTH(name.get()) > 0 && PyUnicode_READ_CHAR(name.get(), 0) == '_') continue;
    const Ref value = Ref::steal(PyObject_GetAttr(module, name.get()));
    if (!value) return false;
    const int error = PyDict_CheckExact(names) ? PyDict_SetItem(names, name.get(), value.get())
                                               : PyObject_SetItem(names, name.get(), value.get());
    if (error != 0) return false;
  }
}

}  // namespace

Flow importName(Machine& m) {
  PyObject* fromlist = m.top();
  PyObject* level = m.top(2);
  if (!m.observer().imports(m.name(), fromlist, level)) return Flow::Stop;
  PyObject* module = importModule(m, m.name(), fromlist, level);
  if (module != nullptr) m.observer().imported(m.name(), module);
  return m.replace(2, module);
}

Flow importFrom(Machine& m) {
  PyObject* module = m.top();
  if (!m.observer().importsFrom(module, m.name())) return Flow::Stop;
  PyObject* value = memberOf(module, m.name());
  if (value == nullptr) return Flow::Error;
  m.observer().importedFrom(module, m.name(), value);
  m.push(value);
  return Flow::Next;
}

Flow importStar(Machine& m) {
  static PyObject* const star = interned("*");
  PyObject* module = m.top();
  PyObject* names = saker_frame_namespace(&m.frame);
  if (names == nullptr) {
    PyErr_SetString(PyExc_SystemError, "no locals found during 'import *'");
    return Flow::Error;
  }
  if (!m.observer().importsFrom(module, star)) return Flow::Stop;
  const bool done = importAll(module, names);
  if (done) m.observer().importedFrom(module, star, module);
  if (m.at->extra != 0) return m.replace(1, done ? newRef(Py_None) : nullptr);
  m.drop();
  return done ? Flow::Next : Flow::Error;
}

}  // namespace saker::watch
