#include "python/wrapped.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "capture/tape.h"

namespace saker::python {

namespace {

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

}  // namespace

void bindWrapped(py::module_& module) {
  module.def("call_wrapped",
             [](const std::string& name, const std::string& overload, const py::tuple& args, const py::dict& kwargs) {
               return callWrapped(name, overload, args, py::reinterpret_borrow<py::kwargs>(kwargs));
             });
}

}  // namespace saker::python
