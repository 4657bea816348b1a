#include "python/aot.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "aot/compiled.h"
#include "ir/clone.h"
#include "python/host.h"

namespace saker::python {

namespace {

std::vector<at::Tensor> tensorsOf(const py::handle& list) {
  std::vector<at::Tensor> tensors;
  for (py::handle item : list) {
    if (!item.is_none() && !THPVariable_Check(item.ptr())) throw py::type_error("a compiled function takes tensors");
    tensors.push_back(item.is_none() ? at::Tensor() : THPVariable_Unpack(item.ptr()));
  }
  return tensors;
}

py::list listOf(const std::vector<at::Tensor>& tensors) {
  py::list list;
  for (const at::Tensor& tensor : tensors) list.append(tensor.defined() ? py::cast(tensor) : py::none());
  return list;
}

// A Python callable that takes tensors and gives a list of them. It lives as long as the interpreter may be asked.
aot::Executable executable(const py::object& callable) {
  if (callable.is_none()) return nullptr;
  auto kept = std::shared_ptr<py::object>(new py::object(callable), [](py::object* object) {
    py::gil_scoped_acquire gil;
    delete object;
  });
  return [kept](std::vector<at::Tensor> inputs) {
    py::gil_scoped_acquire gil;
    py::object result = (*kept)(*py::tuple(listOf(inputs)));
    return tensorsOf(result);
  };
}

std::shared_ptr<aot::CompiledFunction> compile(const py::object& function, const std::vector<at::Tensor>& arguments,
                                               bool minCut, double budget) {
  auto callee = [&](const std::vector<at::Tensor>& standIns) {
    return tensorsOf(function(*py::tuple(listOf(standIns))));
  };
  autograd::PartitionOptions options;
  options.strategy = minCut ? autograd::Strategy::MinCut : autograd::Strategy::Default;
  options.memoryBudget = budget;
  return std::make_shared<aot::CompiledFunction>(aot::captureJoint(pythonHost(), arguments, {}, callee), options);
}

// A graph as a program of its own, whose arguments are its parameters.
std::shared_ptr<runtime::Program> programOf(const aot::CompiledFunction& function, const ir::Graph& graph) {
  auto program = std::make_shared<runtime::Program>();
  program->context = graph.sharedContext();
  program->graph = ir::clone(graph);
  program->objects = function.objects();
  program->arguments = graph.top()->parameters().size();
  for (size_t i = 0; i < program->arguments; ++i) {
    program->sources.push_back({runtime::Source::Kind::Argument, i, {}, false});
    program->sameAs.push_back(i);
  }
  program->argumentWrites.resize(program->arguments);
  program->closedWrites.resize(program->arguments);
  program->results = graph.top()->terminator()->args().size();
  program->resultRequiresGrad.resize(program->results);
  return program;
}

}  // namespace

void bindAot(py::module_& module) {
  py::class_<aot::CompiledFunction, std::shared_ptr<aot::CompiledFunction>>(module, "CompiledFunction")
      .def_property_readonly("training", &aot::CompiledFunction::training)
      .def_property_readonly("forward", &aot::CompiledFunction::forwardGraph,
                             py::return_value_policy::reference_internal)
      .def_property_readonly(
          "backward",
          [](const aot::CompiledFunction& self) { return self.training() ? &self.backwardGraph() : nullptr; },
          py::return_value_policy::reference_internal)
      .def("forward_program", [](const aot::CompiledFunction& self) { return programOf(self, self.forwardGraph()); })
      .def("backward_program", [](const aot::CompiledFunction& self) { return programOf(self, self.backwardGraph()); })
      .def("set_executables",
           [](aot::CompiledFunction& self, const py::object& forward, const py::object& backward) {
             self.setExecutables(executable(forward), executable(backward));
           })
      .def("__call__", [](const aot::CompiledFunction& self, const py::list& arguments) {
        std::vector<at::Tensor> given = tensorsOf(arguments), results;
        {
          py::gil_scoped_release released;
          results = self(given);
        }
        return listOf(results);
      });
  module.def("aot_compile", &compile, py::arg("function"), py::arg("arguments"), py::arg("min_cut") = true,
             py::arg("budget") = 1.0);
}

}  // namespace saker::python
