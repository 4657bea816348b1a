// saker.compile: compiled functions, what they recorded, reports, logs.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace saker::python {

void bindCompile(py::module_& module);

}  // namespace saker::python
