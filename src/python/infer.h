#pragma once

#include <torch/csrc/utils/pybind.h>

namespace saker::python {

// Inference and the operator table: infer(), operators(), fallback_counts(), ...
void bindInfer(py::module_& module);

}  // namespace saker::python
