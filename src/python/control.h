// Operators with bodies for Python: recording the bodies, and calling the operator.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace saker::python {

void bindControl(py::module_& module);

}  // namespace saker::python
