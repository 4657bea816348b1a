// What the mode of saker._tape_mode calls for operators on tensors that are made of others.
#pragma once

#include <torch/csrc/utils/pybind.h>

namespace saker::python {

void bindWrapped(py::module_& module);

}  // namespace saker::python
