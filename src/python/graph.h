#pragma once

#include <torch/csrc/utils/pybind.h>

namespace saker::python {

// Graphs as text: parse(), Graph, passes().
void bindGraph(py::module_& module);

}  // namespace saker::python
