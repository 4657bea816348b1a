#include "frontend/around.h"

#include "capture/tape.h"
#include "frontend/kinds.h"
#include "watch/loop.h"
#include "watch/once.h"
#include "watch/ref.h"

namespace saker::frontend::around {

namespace {

PyObject* callUnwatched(PyObject* hook, PyObject* args) {
  watch::Pause pause;
  tracing::TapeScope untaped(nullptr);
  return PyObject_CallObject(hook, args);
}

PyObject* pushUnwatched(PyObject*, PyObject* args) {
  static PyMethodDef hidden = {"hook", callUnwatched, METH_VARARGS, nullptr};
  PyObject *pack = nullptr, *unpack = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &pack, &unpack)) return nullptr;
  Ref first = Ref::steal(PyCFunction_New(&hidden, pack));
  Ref second = Ref::steal(PyCFunction_New(&hidden, unpack));
  return first && second ? PyObject_CallFunctionObjArgs(push(), first.get(), second.get(), nullptr) : nullptr;
}

}  // namespace

// Flags that functions of one name set and tell; those of precision follow from each other.
std::string flagOf(PyObject* callable) {
  std::string name = nameOf(callable);
  if (name.find("precision") != std::string::npos || name.find("tf32") != std::string::npos) return "precision";
  for (std::string_view prefix : {"_set_", "_get_", "set_", "get_"}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

PyObject* push() {
  static constinit watch::Once<PyObject*> found;
  PyObject* function =
      found.get([] { return watch::importedAttribute("torch._C._autograd", "_push_saved_tensors_default_hooks"); });
  return function;
}

PyObject* hiddenPush() {
  static PyMethodDef method = {"_push_saved_tensors_default_hooks", pushUnwatched, METH_VARARGS, nullptr};
  static PyObject* const function = PyCFunction_New(&method, nullptr);
  return function;
}

bool isFlagSetter(PyObject* function) {
  PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_name;
  if (PyUnicode_CompareWithASCIIString(name, "use_deterministic_algorithms") != 0) return false;
  static constinit watch::Once<PyObject*> found;
  PyObject* known = found.get([] { return watch::importedAttribute("torch", "use_deterministic_algorithms"); });
  return function == known;
}

}  // namespace saker::frontend::around
