// A call of a dispatcher operator as Python writes it: an operator (by name or as torch._ops.OpOverload), positional
// and keyword arguments.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/csrc/utils/pybind.h>

namespace saker::python {

// Raises KeyError for an operator that the dispatcher does not have.
c10::OperatorHandle findOperator(py::handle op);

// The arguments in the order of the schema, defaults filled in. Raises TypeError where they do not fit it.
torch::jit::Stack makeStack(const c10::OperatorHandle& handle, const py::args& args, const py::kwargs& kwargs);

}  // namespace saker::python
