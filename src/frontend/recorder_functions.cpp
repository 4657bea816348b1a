// Python functions that are entered: what they do follows from their code and from what they have with them.
#include <cstddef>

#include "frontend/float_inputs.h"
#include "frontend/kinds.h"
#include "frontend/log.h"
#include "frontend/subjects/subjects.h"

namespace saker::frontend {

bool Recorder::named(PyObject* object) {
  if (provenance_.isFresh(object)) pin(object);
  return isNamed(object);
}

void Recorder::guardFresh(PyObject* function) {
  if (!provenance_.isFresh(function)) return;
  uint32_t place = placeOf(function);
  if (!provenance_.first(GuardOp::FunctionLike, place, nullptr)) return;
  auto* parts = reinterpret_cast<PyFunctionObject*>(function);
  Ref like = Ref::steal(PyTuple_Pack(3, parts->func_code, parts->func_globals, parts->func_builtins));
  checkIs(GuardOp::FunctionLike, place, like.get());
  auto part = [&](PyObject* held, size_t offset) {
    if (held) {
      read(GuardOp::Slot, place, nullptr, static_cast<int64_t>(offset), held);
      realize(held, false);
    } else {
      checkIs(GuardOp::NoSlot, place, nullptr, static_cast<int64_t>(offset));
    }
  };
  part(parts->func_defaults, offsetof(PyFunctionObject, func_defaults));
  part(parts->func_kwdefaults, offsetof(PyFunctionObject, func_kwdefaults));
  part(parts->func_closure, offsetof(PyFunctionObject, func_closure));
}

void Recorder::madeFunction(PyObject* function) {
  keep(Ref::borrow(function));
  madeFunctions_.insert(function);
}

bool Recorder::enters(PyObject* function, PyCodeObject* code) {
  if (stopped_) return false;
  // Objects that a function has with it need no place.
  if (FloatInputs* inputs = FloatInputs::current()) {
    auto note = [&](auto&& self, PyObject* tuple) -> void {
      for (Py_ssize_t i = 0; tuple && PyTuple_Check(tuple) && i < PyTuple_GET_SIZE(tuple); ++i) {
        PyObject* value = PyTuple_GET_ITEM(tuple, i);
        if (PyTuple_Check(value)) self(self, value);
        if (!PyFloat_CheckExact(value)) continue;
        subjects_->arrays.arrayOf(value) ? tape_.spoil(Why::FloatConstant) : inputs->constant(value);
      }
    };
    note(note, code->co_consts);
    if (function && PyFunction_Check(function)) {
      note(note, reinterpret_cast<PyFunctionObject*>(function)->func_defaults);
    }
  }
  ++frames_;
  Progress::tick();
  check();
  if (stopped_) return false;
  if (subjects_->iterators.enters(function)) return true;
  if (!function || !PyFunction_Check(function) || !entered_.insert(function).second || madeHere(function)) return true;
  if (provenance_.isFresh(function)) {
    guardFresh(function);
    return true;
  }
  auto* parts = reinterpret_cast<PyFunctionObject*>(function);
  uint32_t place = fixed(function);
  guards().functions.push_back({Ref::borrow(parts->func_defaults), Ref::borrow(parts->func_kwdefaults)});
  checkIs(GuardOp::Function, place, parts->func_code, static_cast<int64_t>(guards().functions.size() - 1));
  auto each = [&](PyObject* tuple) {
    for (Py_ssize_t i = 0; tuple && i < PyTuple_GET_SIZE(tuple); ++i) noteFixed(PyTuple_GET_ITEM(tuple, i));
  };
  each(parts->func_closure);
  each(parts->func_defaults);
  if (parts->func_kwdefaults) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    uint32_t dict = fixed(parts->func_kwdefaults);
    while (PyDict_Next(parts->func_kwdefaults, &position, &key, &value)) read(GuardOp::Key, dict, key, 0, value);
  }
  return true;
}

}  // namespace saker::frontend
