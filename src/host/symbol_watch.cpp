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

// PyTorch's own conversion knows no nodes but Python's.
Ref wrapSymFloat(const c10::SymFloat& number) {
  if (!number.is_symbolic()) return Ref::steal(PyFloat_FromDouble(number.as_float_unchecked()));
  py::object made = py::module_::import("torch").attr("SymFloat")(py::cast(number.toSymNodeImpl()));
  return Ref::steal(made.release().ptr());
}
c10::SymFloat symFloatOf(PyObject* number) { return py::cast<c10::SymFloat>(py::handle(number)); }

Ref applyToSymbol(sym::FloatOp op, PyObject* number) {
  try {
    py::object node = py::getattr(number, "node");
    return wrapSymFloat(c10::SymFloat(py::cast<SymNode&>(node).function(op)));
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const std::domain_error& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return {};
}

}  // namespace saker
