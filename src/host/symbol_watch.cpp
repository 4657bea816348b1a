#include "host/symbol_watch.h"

#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_symnode.h>

#include <utility>

namespace saker {

namespace py = pybind11;
using aten::SymNode;

namespace {

thread_local SymbolWatch* watching = nullptr;

}  // namespace

SymbolWatch::SymbolWatch() : before_(std::exchange(watching, this)) {}
SymbolWatch::~SymbolWatch() { watching = before_; }
SymbolWatch* SymbolWatch::current() { return watching; }

void SymbolWatch::saw(PyObject* symbol) {
  py::object node = py::getattr(symbol, "node", py::none());
  if (py::isinstance<SymNode>(node)) saw(*py::cast<const SymNode*>(node));
}

const SymNode* unwrapPythonNode(const c10::SymNodeImpl& node) {
  const auto* wrapper = dynamic_cast<const torch::impl::PythonSymNodeImpl*>(&node);
  if (!wrapper) return nullptr;
  py::gil_scoped_acquire gil;
  py::handle object = const_cast<torch::impl::PythonSymNodeImpl*>(wrapper)->getPyObj();
  return py::isinstance<SymNode>(object) ? py::cast<const SymNode*>(object) : nullptr;
}

}  // namespace saker
