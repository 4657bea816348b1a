#pragma once

#include <torch/csrc/utils/pybind.h>

#include "aten/sym_node.h"

namespace saker::python {

// SymbolSpace, the node class behind its symbols, and the exceptions these raise.
void bindSymbols(py::module_& module);

// Our node inside the wrapper that torch's bindings put around the nodes of Python objects, or nullptr.
const aten::SymNode* unwrapPythonNode(const c10::SymNodeImpl& node);

}  // namespace saker::python
