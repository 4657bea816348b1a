#pragma once

#include <torch/csrc/utils/pybind.h>

namespace saker::python {

// Graphs and programs as plain Python objects, for what converts and draws them.
void bindDescribe(py::module_& module);

}  // namespace saker::python
