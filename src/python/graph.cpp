#include "python/graph.h"

#include "aten/context.h"
#include "ir/clone.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verifier.h"
#include "ops/operator.h"
#include "passes/pass.h"
#include "runtime/executable.h"

namespace saker::python {

namespace {

[[noreturn]] void raiseParseError(const ir::ParseError& error) {
  py::object type = py::module_::import("saker.errors").attr("ParseError");
  py::object raised = type(error.message, error.line, error.column);
  PyErr_SetObject(type.ptr(), raised.ptr());
  throw py::error_already_set();
}

std::unique_ptr<ir::Graph> parse(const std::string& text) {
  ir::Parsed parsed = ir::parse(text, aten::newContext());
  if (!parsed.ok()) raiseParseError(*parsed.error);
  return std::move(parsed.graph);
}

void check(const ir::Graph& graph, size_t limit) {
  std::string messages;
  for (const ir::Diagnostic& found : ir::verify(graph, limit))
    messages += (messages.empty() ? "" : "\n") + found.message;
  if (!messages.empty()) throw py::value_error(messages);
}

py::list runPasses(ir::Graph& graph, const std::string& names, bool verifyEach) {
  check(graph, 1);  // passes and runs count on it
  passes::RunOptions options;
  options.verify = verifyEach;
  passes::RunResult result = passes::run(graph, names, options);
  if (result.error) throw py::value_error(*result.error);
  py::list runs;
  for (const passes::PassRun& run : result.runs) {
    runs.append(py::make_tuple(run.pass->name, run.milliseconds, run.nodesBefore, run.nodesAfter));
  }
  return runs;
}

py::object toPython(const c10::IValue& value) {
  if (value.isTensor()) return py::cast(value.toTensor());
  if (value.isInt()) return py::int_(value.toInt());
  if (value.isDouble()) return py::float_(value.toDouble());
  if (value.isBool()) return py::bool_(value.toBool());
  if (value.isNone()) return py::none();
  throw py::type_error("the graph returns something that is neither a tensor nor a number");
}

// Runs the graph on real tensors; parameters that are no tensors are taken from the sizes of those that are.
py::list run(const ir::Graph& graph, const std::vector<at::Tensor>& inputs) {
  std::span<ir::Value* const> parameters = graph.top()->parameters();
  check(graph, 1);
  const ir::Node* end = graph.top()->terminator();
  if (!end) throw py::value_error("the graph does not end in return");
  // a run counts all parameters.
  std::vector<at::Tensor> placed(parameters.size());
  size_t next = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i]->tensor()) continue;
    if (next >= inputs.size()) throw py::value_error("the graph has more inputs than were given");
    placed[i] = inputs[next++];
  }
  if (next != inputs.size()) throw py::value_error("the graph has fewer inputs than were given");
  const std::vector<c10::IValue> objects;
  runtime::Executable executable(graph, objects);
  runtime::Run running(executable);
  running.sizes().bind(placed);
  if (std::string why = running.sizes().unmet(/*guards=*/false); !why.empty()) throw py::value_error(why);
  for (size_t i = 0; i < placed.size(); ++i) {
    if (placed[i].defined()) running.set(i, placed[i]);
  }
  running.run();
  py::list results;
  for (size_t i = 0; i < running.returnedCount(); ++i) results.append(toPython(running.returned(i)));
  return results;
}

}  // namespace

void bindGraph(py::module_& module) {
  py::class_<ir::Graph>(module, "Graph", "A program: values, operators, regions. Made by saker.parse().")
      .def_property_readonly("name", [](const ir::Graph& graph) { return graph.name(); })
      .def_property_readonly(
          "text", [](const ir::Graph& graph) { return ir::print(graph); }, "The graph as text.")
      .def("__str__", [](const ir::Graph& graph) { return ir::print(graph); })
      .def("__len__", &ir::Graph::liveNodes, "The number of nodes, those of nested regions included.")
      .def("__copy__", [](const ir::Graph& graph) { return ir::clone(graph); })
      .def("__deepcopy__", [](const ir::Graph& graph, const py::dict&) { return ir::clone(graph); })
      .def(py::pickle([](const ir::Graph& graph) { return ir::print(graph, {.locations = true, .guards = true}); },
                      &parse))
      .def("verify", &check, py::arg("limit") = 16,
           "Raises ValueError with what is wrong with the graph, if anything is.")
      .def("run_passes", &runPasses, py::arg("names"), py::arg("verify") = true,
           "Runs passes, named and separated by commas. Gives (name, milliseconds, nodes before, nodes after) for "
           "each.")
      .def("run", &run, py::arg("inputs"),
           "Runs the graph through ATen on a list of tensors, one for each parameter that is a tensor, and gives the "
           "list of what it returns. Inputs that the graph writes are written.");
  module.def("parse", &parse, py::arg("text"),
             "Reads a graph from its text. Raises saker.ParseError with the line and column of what is wrong.\n\n"
             ">>> graph = saker.parse(saker.capture(torch.sin, x).text)\n"
             ">>> graph.run([x])");
  module.def(
      "passes",
      [] {
        py::list list;
        for (const passes::Pass& pass : passes::all()) list.append(py::make_tuple(pass.name, pass.description));
        return list;
      },
      "(name, description) of each pass that a graph's run_passes() takes.\n\n"
      ">>> [name for name, _ in saker.passes()]");
}

}  // namespace saker::python
