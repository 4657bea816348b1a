// Computations of torch.autograd.Functions for saker._functions: record_computation, note_opened.
#pragma once

#include <pybind11/pybind11.h>

namespace saker::python {

void bindComputation(pybind11::module_& module);

}  // namespace saker::python
