// Generated code as Python sees it: reports of kernels, what this installation compiles with, and modes of tests.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace saker::python {

void bindNative(py::module_& module);

}  // namespace saker::python
