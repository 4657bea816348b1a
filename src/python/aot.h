// Ahead-of-time compiled functions for Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace saker::python {

void bindAot(py::module_& module);

}  // namespace saker::python
