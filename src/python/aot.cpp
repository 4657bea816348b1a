#include "python/aot.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_symnode.h>

#include "aot/checkpoint_regions.h"
#include "aot/pipeline.h"
#include "capture/user_code.h"
#include "frontend/compiled.h"
#include "host/foreign_results.h"
#include "host/trace_host.h"
#include "ir/clone.h"
#include "python/aot_apart.h"
#include "python/aot_call.h"
#include "python/result_tree.h"

namespace saker::python {

namespace {

// None and numbers are undefined.
std::vector<at::Tensor> tensorsOf(const py::handle& list) {
  std::vector<at::Tensor> tensors;
  for (py::handle item : list) {
    tensors.push_back(THPVariable_Check(item.ptr()) ? THPVariable_Unpack(item.ptr()) : at::Tensor());
  }
  return tensors;
}

// Tensors or None, and symbolic numbers among them.
aot::Returned returnedOf(const py::handle& list) {
  aot::Returned returned;
  for (py::handle item : list) {
    if (torch::is_symint(item)) {
      returned.numbers.emplace_back(py::cast<c10::SymInt>(item));
    } else if (torch::is_symfloat(item)) {
      returned.numbers.emplace_back(py::cast<c10::SymFloat>(item));
    } else if (torch::is_symbool(item)) {
      returned.numbers.emplace_back(py::cast<c10::SymBool>(item));
    } else {
      returned.tensors.push_back(THPVariable_Check(item.ptr()) ? THPVariable_Unpack(item.ptr()) : at::Tensor());
    }
  }
  return returned;
}

py::list listOf(const std::vector<at::Tensor>& tensors, std::span<const int64_t> numbers = {}) {
  py::list list;
  size_t next = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) {
      list.append(py::cast(tensor));
    } else {
      list.append(next < numbers.size() ? py::object(py::int_(numbers[next++])) : py::none());
    }
  }
  return list;
}

// Lives as long as the interpreter may be asked.
std::shared_ptr<py::object> keep(const py::object& object) {
  return std::shared_ptr<py::object>(new py::object(object), [](py::object* kept) {
    py::gil_scoped_acquire gil;
    delete kept;
  });
}

// A Python callable that runs a graph with such results. It runs below autograd, but Python modes see what it does.
aot::Executable executable(const py::object& callable, const ForeignResults& expected) {
  return [kept = keep(callable), expected](std::vector<at::Tensor> inputs, std::span<const int64_t> numbers) {
    py::gil_scoped_acquire gil;
    c10::AutoGradMode off(false);
    c10::impl::ForceDispatchKeyGuard keys(
        c10::default_included_set, c10::default_excluded_set | c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    py::tuple given(listOf(inputs, numbers));
    inputs.clear();
    return expected.take((*kept)(*given));
  };
}

aot::Executable executable(const py::object& callable, const ir::Graph& graph) {
  return callable.is_none() ? nullptr : executable(callable, ForeignResults(graph, py::str(callable.attr("maker"))));
}

// Where the error of the function comes from: as eager mode raises it, or a refusal of ours.
bool isRefusal(const std::exception_ptr& cause) {
  py::object type = py::module_::import("saker.errors").attr("Refusal");
  auto judge = [&](const py::handle& error) {
    return py::isinstance(error, type) && py::str(error.attr("reason")).cast<std::string>() != "BadArgument";
  };
  try {
    std::rethrow_exception(cause);
  } catch (const py::error_already_set& error) {
    return judge(error.value());
  } catch (const python_error& error) {
    return judge(error.value);
  } catch (...) {
    return false;
  }
}

bool isOurs(const std::exception_ptr& cause) {
  py::object type = py::module_::import("saker.errors").attr("Refusal");
  try {
    std::rethrow_exception(cause);
  } catch (const py::error_already_set& error) {
    return py::isinstance(error.value(), type);
  } catch (const python_error& error) {
    return py::isinstance(error.value, type);
  } catch (...) {
    return false;
  }
}

// The compiled function, or why calls are to be made in eager mode.
std::pair<std::shared_ptr<aot::CompiledFunction>, std::string> compile(
    const py::object& function, const std::vector<at::Tensor>& arguments, bool minCut, double budget,
    const std::vector<std::tuple<size_t, size_t, std::string>>& dynamic, const py::object& leniently,
    const py::object& again, bool inStages, bool onlyDifferentiate, const std::vector<std::string>& names,
    const py::object& backwardHolds) {
  auto callee = [&](const std::vector<at::Tensor>& standIns) {
    return returnedOf(function(*py::tuple(listOf(standIns))));
  };
  aot::Leniently lenient = [&](const std::function<void()>& run) {
    PyErr_Clear();  // the engine leaves the error of the first try
    leniently(py::cpp_function(run));
  };
  if (leniently.is_none()) lenient = nullptr;
  autograd::PartitionOptions options;
  options.strategy = minCut ? autograd::Strategy::MinCut : autograd::Strategy::Default;
  options.memoryBudget = budget;
  aot::JointOptions capturing{.names = names, .leniently = lenient, .inStages = inStages};
  for (const auto& [argument, dim, name] : dynamic) capturing.dynamic.push_back({argument, dim, name});
  try {
    passes::Stages stages;
    if (onlyDifferentiate) {
      aot::differentiate(pythonHost(), arguments, callee, capturing, stages);
      return {nullptr, "it was differentiated only"};
    }
    std::optional<tracing::OpenedNodes> opened;
    if (!backwardHolds.is_none()) opened.emplace();
    std::shared_ptr<aot::CompiledFunction> compiled =
        aot::compile(pythonHost(), arguments, callee, capturing, options, stages);
    if (opened) {
      if (!compiled->training() || !compiled->needsFunction()) return {nullptr, "results are views, or written"};
      compiled->setBackwardHolds([kept = keep(backwardHolds)] {
        py::gil_scoped_acquire gil;
        return (*kept)().cast<bool>();
      });
    }
    if (compiled->needsFunction()) {
      compiled->setFunction([kept = keep(again)](const std::vector<at::Tensor>& tensors) {
        py::gil_scoped_acquire gil;
        return returnedOf((*kept)(*py::tuple(listOf(tensors))));
      });
    }
    return {std::move(compiled), ""};
  } catch (const aot::Refused& why) {
    py::object type = py::module_::import("saker.errors").attr("MutationError");
    PyErr_SetObject(type.ptr(), type(std::string(why.what())).ptr());
    throw py::error_already_set();
  } catch (const aot::NotAheadOfTime& refused) {
    ++frontend::counts().instead[static_cast<size_t>(refused.why.why)];
    return {nullptr, refused.what()};
  } catch (const aot::CallFailed& failed) {
    // An error of the function is raised by the function, and after what it writes before.
    bool raises = isOurs(failed.cause) ? !isRefusal(failed.cause) : failed.written;
    if (raises) return {nullptr, "the function raises an error"};
    std::rethrow_exception(failed.cause);
  }
}

// A graph as a program of its own, whose arguments are its parameters.
std::shared_ptr<runtime::Program> programOf(const std::vector<c10::IValue>& objects, const ir::Graph& graph) {
  auto program = std::make_shared<runtime::Program>();
  program->context = graph.sharedContext();
  program->graph = ir::clone(graph);
  program->objects = objects;
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
      .def_property_readonly("results", &aot::CompiledFunction::results)
      .def_property_readonly("needs_function", &aot::CompiledFunction::needsFunction)
      .def_property_readonly("forward", &aot::CompiledFunction::forwardGraph,
                             py::return_value_policy::reference_internal)
      .def_property_readonly(
          "backward",
          [](const aot::CompiledFunction& self) { return self.training() ? &self.backwardGraph() : nullptr; },
          py::return_value_policy::reference_internal)
      // What the forward keeps for the backward: (intermediate tensors, their bytes, inputs that are kept as they are).
      .def_property_readonly("saved",
                             [](const aot::CompiledFunction& self) {
                               aot::CompiledFunction::Saved saved = self.saved();
                               return py::make_tuple(saved.tensors, saved.bytes, saved.inputs);
                             })
      .def("forward_program",
           [](const aot::CompiledFunction& self) { return programOf(self.objects(), self.forwardGraph()); })
      .def("backward_program",
           [](const aot::CompiledFunction& self) { return programOf(self.objects(), self.backwardGraph()); })
      // Callables that run the graphs; `backward_for` makes one of another program, for tangents that are not all
      // given.
      .def(
          "set_executables",
          [](const std::shared_ptr<aot::CompiledFunction>& self, const py::object& forward, const py::object& backward,
             const py::object& backwardFor) {
            aot::Maker maker;
            if (!backwardFor.is_none()) {
              maker = [kept = keep(backwardFor), objects = self->objects()](const ir::Graph& graph) {
                py::gil_scoped_acquire gil;
                return executable((*kept)(programOf(objects, graph)), graph);
              };
            }
            self->setExecutables(executable(forward, self->forwardGraph()),
                                 backward.is_none() ? nullptr : executable(backward, self->backwardGraph()),
                                 std::move(maker));
          },
          py::arg("forward"), py::arg("backward"), py::arg("backward_for") = py::none())
      .def("joint_program",
           [](const aot::CompiledFunction& self) { return programOf(self.objects(), self.jointGraph()); })
      // Callables that run the halves of the joint graph as somebody else has cut it.
      .def(
          "set_halves",
          [](aot::CompiledFunction& self, size_t saved, const py::object& forward, const py::object& backward) {
            const ir::Graph& joint = self.jointGraph();
            size_t results = self.results(), all = joint.top()->terminator()->args().size();
            ForeignResults first(joint, py::str(forward.attr("maker")), 0, results, saved);
            ForeignResults second(joint, py::str(backward.attr("maker")), results, all);
            self.setHalves(saved, executable(forward, first), executable(backward, second));
          },
          py::arg("saved"), py::arg("forward"), py::arg("backward"))
      .def("leave_writes_to_graph", &aot::CompiledFunction::leaveWritesToGraph)
      // By write: (parameter of the forward, result, whether that is also something else), or None.
      .def("writes_for_graph",
           [](const aot::CompiledFunction& self) {
             py::list out;
             for (const std::optional<aot::GraphWrite>& write : self.writesForGraph()) {
               out.append(write ? py::object(py::make_tuple(write->primal, write->result, write->needed)) : py::none());
             }
             return out;
           })
      // Takes a list of tensors and empties it, so that arguments may be let go when they are used up. None: the call
      // is to be made in eager mode; the list is as it was.
      .def("call_boxed",
           [](const aot::CompiledFunction& self, const py::list& arguments) -> py::object {
             std::vector<at::Tensor> given = tensorsOf(arguments);
             py::list kept = arguments[py::slice(0, static_cast<py::ssize_t>(arguments.size()), 1)];
             arguments.attr("clear")();
             bool mayRelease = true;
             std::optional<std::vector<at::Tensor>> results;
             if (self.mayNeedEager()) mayRelease = false;
             if (mayRelease) kept = py::list();
             {
               py::gil_scoped_release released;
               results = self(std::move(given));
             }
             if (results) return listOf(*results);
             arguments.attr("extend")(kept);
             return py::none();
           })
      .def("__call__", [](const aot::CompiledFunction& self, const py::list& arguments) -> py::object {
        std::optional<std::vector<at::Tensor>> results;
        std::vector<at::Tensor> given = tensorsOf(arguments);
        {
          py::gil_scoped_release released;
          results = self(std::move(given));
        }
        return results ? py::object(listOf(*results)) : py::none();
      });
  module.def("aot_compile", &compile, py::arg("function"), py::arg("arguments"), py::arg("min_cut") = true,
             py::arg("budget") = 1.0, py::arg("dynamic") = std::vector<std::tuple<size_t, size_t, std::string>>(),
             py::arg("leniently") = py::none(), py::arg("again") = py::none(), py::arg("in_stages") = true,
             py::arg("only_differentiate") = false, py::arg("names") = std::vector<std::string>(),
             py::arg("backward_holds") = py::none());
  // For compilers, which may do whatever they do, in the middle of a backward too.
  module.def("in_plain_state", [](const py::object& function) {
    c10::impl::ForceDispatchKeyGuard keys(c10::default_included_set, c10::default_excluded_set);
    return function();
  });
  module.def("checkpoint_position", &aot::recordedSoFar);
  module.def("checkpoint_number", &aot::nextCheckpoint);
  module.def("checkpoint_mark", &aot::markRecorded);
  bindResultTree(module);
  bindApart(module);
  bindAotCall(module);
  bindAotModule(module);
  nameAotNodes();
}

}  // namespace saker::python
