// Python's random numbers: drawn before the graph when the call is done again, in the same order.
#include "frontend/host_call.h"
#include "frontend/recorder.h"

namespace saker::frontend {

namespace {

PyTypeObject* generatorType() {
  static auto* const type = [] {
    Ref module = Ref::steal(PyImport_ImportModule("_random"));
    return module ? reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(module.get(), "Random")) : nullptr;
  }();
  return type;
}

}  // namespace

std::optional<bool> Recorder::callsRandom(PyObject* callable, const std::vector<PyObject*>& args) {
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  bool bound = self && PyObject_TypeCheck(self, generatorType());
  if (!bound && Py_IS_TYPE(callable, &PyMethodDescr_Type) && !args.empty()) self = args[0];
  if (!bound && !(self && PyDescr_TYPE(callable) == generatorType())) return std::nullopt;
  if (!PyObject_TypeCheck(self, generatorType())) return std::nullopt;
  Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  bool bits = name && PyUnicode_CompareWithASCIIString(name.get(), "getrandbits") == 0;
  bool isFloat = name && PyUnicode_CompareWithASCIIString(name.get(), "random") == 0;
  if (!bits && !isFloat) return std::nullopt;
  if (speculative_) return stop("draws random numbers");
  if (placeOf(self) == kInside) fixed(self);
  Ref method = Ref::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(generatorType()), name.get()));
  PyObject* argument = args.size() > (bound ? 0u : 1u) ? args.back() : nullptr;
  if (argument && !isAtom(argument)) return stop("draws random numbers");
  pin(self);
  drawing_ = Draw{method, Ref::borrow(self), Ref::borrow(argument), {}, kInside};
  return true;
}

void Recorder::drew(PyObject* result) {
  Draw draw = std::move(*drawing_);
  drawing_.reset();
  kept_.push_back(Ref::borrow(result));
  if (PyFloat_CheckExact(result)) {
    at::Tensor tensor = numberTensor(PyFloat_AS_DOUBLE(result));
    tape_.meet(tensor);
    draw.place = guards_.places++;
    objects_.push_back(result);
    tensors_.emplace(tensor.unsafeGetTensorImpl(), draw.place);
    arrays_.emplace(result, Array{tensor, true, false, true});
  } else {
    draw.expected = Ref::borrow(result);
  }
  draws_.push_back(std::move(draw));
}

}  // namespace saker::frontend
