#include "python/computation.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "capture/user_code.h"
#include "frontend/computation.h"
#include "host/errors.h"

namespace saker::python {

namespace {

using frontend::Computation;

struct KeptComputation {
  std::shared_ptr<Computation> computation;
};

py::tuple recordComputation(const py::object& function, const py::tuple& arguments) {
  Computation::Recorded made = Computation::record(function.ptr(), arguments.ptr());
  if (!made.result) throw py::error_already_set();
  py::object kept = py::none();
  if (made.computation) kept = py::cast(KeptComputation{std::move(made.computation)});
  return py::make_tuple(py::reinterpret_steal<py::object>(made.result.release()), kept, made.why);
}

// The nodes that have given these.
void noteOpened(const std::vector<at::Tensor>& tensors, bool saves) {
  for (const at::Tensor& tensor : tensors) {
    if (auto node = tensor.grad_fn()) tracing::OpenedNodes::note(*node, saves);
  }
}

py::object bindTo(KeptComputation& self, const py::tuple& arguments, const py::list& placeholders) {
  std::vector<PyObject*> given;
  for (py::handle each : placeholders) given.push_back(each.ptr());
  return self.computation->bind(arguments.ptr(), given) ? py::cast(self) : py::none();
}

py::object runOn(const KeptComputation& self, const std::vector<at::Tensor>& tensors) {
  PyObject* made = self.computation->run(tensors);
  if (!made) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

}  // namespace

void bindComputation(py::module_& module) {
  py::class_<KeptComputation>(module, "Computation")
      .def("bind", &bindTo)
      .def("holds", [](const KeptComputation& self, bool around) { return self.computation->holds(around); })
      .def("fits", [](const KeptComputation& self, const std::vector<at::Tensor>& tensors,
                      bool exact) { return self.computation->fits(tensors, exact); })
      .def("run", &runOn)
      .def("looks_at",
           [](const KeptComputation& self, const std::string& name) { return self.computation->looksAt(name.c_str()); })
      .def("asks_strides", [](const KeptComputation& self) { return self.computation->asksStrides(); })
      .def("asks_flags", [](const KeptComputation& self) { return self.computation->asksFlags(); })
      .def("writes", [](const KeptComputation& self) { return self.computation->writes(); });
  module.def("record_computation", &recordComputation);
  module.def("note_opened", &noteOpened);
}

}  // namespace saker::python
