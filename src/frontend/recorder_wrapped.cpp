// Tensors that are made of others: making one, and taking it apart, are operators of the graph that call the class
// again. So is a torch.autograd.Function: its forward and backward are code of the user that runs whenever it would.

#include <algorithm>

#include "frontend/kinds.h"
#include "frontend/recorder.h"
#include "frontend/wrapped.h"

#include "host/objects.h"
namespace saker::frontend {

namespace {

// The apply of a torch.autograd.Function, as C has it.
bool appliesFunction(PyObject* callable) {
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  return self && PyType_Check(self) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(self), functionClass()) &&
         nameOf(callable) == "apply";
}

}  // namespace

// Code of the user's runs among the operators of a replay, and effects come after these, unless they need no result and
// no operator before them may fail: then they come first.
bool Recorder::doesEffectsFirst() {
  auto comes = [&](const Ref& argument) {
    PyObject* object = argument.get();
    if (arrayOf(object)) return false;  // a number that is data
    return isAtom(object) || isNamed(object) || placeOf(object) != kInside;
  };
  for (Effect& each : effects_) {
    if (each.early || each.hook) continue;
    if (tape_.risk().any || !std::all_of(each.arguments.begin(), each.arguments.end(), comes)) return false;
  }
  for (Effect& each : effects_) each.early |= !each.hook;
  return true;
}

std::optional<bool> Recorder::wraps(PyObject* callable, const std::vector<PyObject*>& args, PyObject* names) {
  if (appliesFunction(callable)) {
    if (!doesEffectsFirst()) {
      return stop(Why::WrapperAfterEffects);
    }
    if (!hosts(callable, args, names, /*asIs=*/true)) return false;
    hosted_->call->wraps = true;
    hosted_->call->repeatable = false;
    hiding_ = calling_;
    return true;
  }
  if (!PyType_Check(callable) || !isWrapperClass(reinterpret_cast<PyTypeObject*>(callable))) return std::nullopt;
  if (!watchWrappers()) return stop(Why::WrapperUnderMode);
  if (!hosts(callable, args, names)) return false;
  hosted_->call->wraps = hosted_->call->repeatable = true;
  hiding_ = calling_;
  return true;
}

std::optional<bool> Recorder::wrappedAttribute(PyObject* owner, PyObject* name) {
  if (!isTensor(owner) || placeOf(owner) != kInside || !isWrapperClass(Py_TYPE(owner))) return std::nullopt;
  PyObject* dict = instanceDict(owner);
  PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (!value || !isTensor(value) || tape_.made(tensorOf(value)) || placeOf(value) != kInside) {
    return std::nullopt;
  }
  static PyObject* const getAttribute = PyDict_GetItemString(PyEval_GetBuiltins(), "getattr");
  if (!hosts(getAttribute, {owner, name}, nullptr)) return false;
  hosted_->call->wraps = hosted_->call->repeatable = true;
  return true;
}

// Its class may look at all of it.
void Recorder::foundWrapper(uint32_t place, PyObject* object) {
  if (speculative_ || !watchWrappers()) {
    tape_.spoil(Why::WrapperFound);
    return;
  }
  PyObject* dict = instanceDict(object);
  Ref items = dict ? Ref::steal(PyDict_Items(dict)) : Ref();
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    PyObject* value = PyTuple_GET_ITEM(item, 1);
    read(Op::Attribute, place, PyTuple_GET_ITEM(item, 0), 0, value);
    realize(value, true);
  }
}

}  // namespace saker::frontend
