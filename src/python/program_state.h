// Captured programs as plain Python objects, for pickle: the text of the graph, and what a run needs besides.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <memory>

#include "runtime/program.h"

namespace saker::python {

// Throws TypeError where the program holds what has no such form: code of the user, objects of PyTorch's.
py::tuple programState(const runtime::Program& program);
std::shared_ptr<runtime::Program> programFrom(const py::tuple& state);

}  // namespace saker::python
