#pragma once

#include <torch/csrc/utils/pybind.h>

namespace saker::python {

// SymbolSpace, the node class behind its symbols, and the exceptions these raise.
void bindSymbols(py::module_& module);

}  // namespace saker::python
