#include "frontend/doubles.h"

#include "frontend/kinds.h"

namespace saker::frontend {

namespace {

PyObject* next(PyObject* from, const Step& step) {
  switch (step.op) {
    case GuardOp::Item: {
      bool inside = (PyList_CheckExact(from) || PyTuple_Check(from)) && step.number < Py_SIZE(from);
      return inside ? PySequence_Fast_ITEMS(from)[step.number] : nullptr;
    }
    case GuardOp::Key:
      return PyDict_CheckExact(from) ? PyDict_GetItemWithError(from, step.key.get()) : nullptr;
    case GuardOp::Attribute: {
      PyObject* dict = instanceDict(from);
      return dict ? PyDict_GetItemWithError(dict, step.key.get()) : nullptr;
    }
    default:
      return nullptr;
  }
}

// Only what was made here is written to.
bool set(PyObject* in, const Step& step, PyObject* value) {
  switch (step.op) {
    case GuardOp::Item: {
      PyObject*& slot = PySequence_Fast_ITEMS(in)[step.number];
      Py_SETREF(slot, Py_NewRef(value));
      return true;
    }
    case GuardOp::Key:
      return PyDict_SetItem(in, step.key.get(), value) == 0;
    default:
      return PyDict_SetItem(instanceDict(in), step.key.get(), value) == 0;
  }
}

// All there is to an instance is its dict, and nothing happens when it goes away.
bool isPlainInstance(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!isPythonClass(type) || nativeBase(type) != &PyBaseObject_Type || !instanceDict(object)) return false;
  static PyObject* const finalizer = PyUnicode_InternFromString("__del__");
  if (_PyType_Lookup(type, finalizer)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* dict = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i))->tp_dict;
    PyObject* slots = dict ? PyDict_GetItemString(dict, "__slots__") : nullptr;
    if (slots && !(PyTuple_CheckExact(slots) && PyTuple_GET_SIZE(slots) == 0)) return false;
  }
  return true;
}

Ref copyOf(PyObject* original) {
  if (PyList_CheckExact(original)) return Ref::steal(PyList_GetSlice(original, 0, PyList_GET_SIZE(original)));
  if (PyDict_CheckExact(original)) return Ref::steal(PyDict_Copy(original));
  if (PyTuple_Check(original)) {
    bool plain = PyTuple_CheckExact(original) || (isPythonClass(Py_TYPE(original)) && !instanceDict(original));
    Ref elements = Ref::steal(plain ? PyList_New(0) : nullptr);
    for (Py_ssize_t i = 0; elements && i < PyTuple_GET_SIZE(original); ++i) {
      PyList_Append(elements.get(), PyTuple_GET_ITEM(original, i));
    }
    Ref given = Ref::steal(elements ? PyTuple_Pack(1, elements.get()) : nullptr);
    return Ref::steal(given ? PyTuple_Type.tp_new(Py_TYPE(original), given.get(), nullptr) : nullptr);
  }
  if (!isPlainInstance(original)) return {};
  Ref dict = Ref::steal(PyDict_Copy(instanceDict(original)));
  Ref copy = Ref::steal(Py_TYPE(original)->tp_alloc(Py_TYPE(original), 0));
  if (!dict || !copy || PyObject_GenericSetDict(copy.get(), dict.get(), nullptr) < 0) return {};
  return copy;
}

}  // namespace

PyObject* follow(PyObject* from, std::span<const Step> path) {
  for (const Step& step : path) {
    if (from) from = next(from, step);
  }
  return from;
}

PyObject* Doubles::doubleOf(PyObject* original) {
  if (isDouble(original)) return original;
  Ref& known = doubles_[original];
  if (!known) known = copyOf(original);
  PyErr_Clear();
  if (known) made_.insert(known.get());
  return known.get();
}

bool Doubles::put(PyObject*& argument, std::span<const Step> path, PyObject* standIn) {
  if (path.empty()) {
    argument = standIn;
    return true;
  }
  PyObject* at = doubleOf(argument);
  if (!at) return false;
  argument = at;
  for (size_t i = 0; i < path.size(); ++i) {
    PyObject* child = next(at, path[i]);
    PyObject* replaced = i + 1 == path.size() ? standIn : child ? doubleOf(child) : nullptr;
    if (!child || !replaced || !set(at, path[i], replaced)) return false;
    at = replaced;
  }
  return true;
}

}  // namespace saker::frontend
