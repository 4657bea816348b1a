#include "frontend/wrapped.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "capture/tape.h"
#include "frontend/ref.h"
#include "watch/loop.h"

namespace saker::frontend {

namespace {

namespace py = pybind11;

// The mode that is on for this thread's recording, or nothing.
Ref& modeOfThread() {
  static thread_local Ref mode;
  return mode;
}

py::object modeModule() { return py::module_::import("saker._tape_mode"); }

// An operator on tensors some of which answer for themselves.
py::object callWrapped(const std::string& name, const std::string& overload, const py::tuple& args,
                       const py::kwargs& kwargs) {
  c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  torch::jit::ToIValueAllowNumbersAsTensors numbers(true);
  torch::jit::Stack stack =
      torch::jit::createStackForSchema(op.schema(), torch::jit::tuple_slice(args), kwargs, std::nullopt);
  tracing::Tape* tape = tracing::currentTape();
  if (!tape || !tape->callWrapped(tracing::Call(op, {}, &stack))) {
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Python), &stack);
  }
  return torch::jit::createPyObjectForStack(std::move(stack));
}

void unwatched(void (*function)(void*), void* argument) {
  watch::Pause pause;
  function(argument);
}

}  // namespace

bool isWrapperClass(PyTypeObject* type) {
  static PyObject* const flatten = PyUnicode_InternFromString("__tensor_flatten__");
  static PyObject* const unflatten = PyUnicode_InternFromString("__tensor_unflatten__");
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
         PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(THPVariableClass)) && _PyType_Lookup(type, flatten) &&
         _PyType_Lookup(type, unflatten);
}

bool isWrapper(const at::Tensor& tensor) {
  if (!tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) return false;
  pybind11::gil_scoped_acquire gil;
  Ref object = Ref::steal(THPVariable_Wrap(tensor));
  return object && isWrapperClass(Py_TYPE(object.get()));
}

bool watchWrappers() {
  if (modeOfThread()) return true;
  watch::Pause pause;
  tracing::TapeScope untaped(nullptr);
  py::object mode = modeModule().attr("enter")();
  if (mode.is_none()) return false;
  modeOfThread() = Ref::steal(mode.release().ptr());
  return true;
}

void WrappersScope::leave() {
  if (!modeOfThread()) return;
  py::error_scope raised;  // by the call
  Ref mode = std::exchange(modeOfThread(), Ref());
  modeModule().attr("leave")(py::handle(mode.get()));
}

void bindWrapped(py::module_& module) {
  module.def("call_wrapped",
             [](const std::string& name, const std::string& overload, const py::tuple& args, const py::dict& kwargs) {
               return callWrapped(name, overload, args, py::reinterpret_borrow<py::kwargs>(kwargs));
             });
}

void addWrappers(tracing::Host& host) {
  host.isWrapper = &isWrapper;
  host.unwatched = &unwatched;
}

}  // namespace saker::frontend
