// The callable that saker.aot_function gives: it finds what was compiled for a call and runs it, without Python.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace saker::python {

void bindAotCall(py::module_& module);
void nameAotNodes();

}  // namespace saker::python
