#include "host/backend.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "host/foreign_results.h"

namespace saker {

namespace py = pybind11;

namespace {

py::list listOf(const std::vector<at::Tensor>& tensors) {
  py::list list;
  for (const at::Tensor& tensor : tensors) list.append(py::cast(tensor));
  return list;
}

}  // namespace

std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> makeBackend(
    const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs, PyObject* maker) {
  py::object object = py::handle(maker)(program, listOf(inputs));
  // Held until no thread runs it any more.
  auto made = std::shared_ptr<py::object>(new py::object(std::move(object)), [](py::object* object) {
    py::gil_scoped_acquire gil;
    delete object;
  });
  // PyTorch hands tensors that stand for numbers to Python as numbers.
  ForeignResults expected(*program->graph, "backend", 0, program->results);
  expected.allowNumbers();
  return [made, expected](const std::vector<at::Tensor>& given) { return expected.take((*made)(listOf(given))); };
}

PyObject* wrapperBackend() { return py::object(py::module_::import("saker._wrapped").attr("make")).release().ptr(); }

}  // namespace saker
