#include "python/infer.h"

#include <chrono>
#include <memory>

#include "aten/context.h"
#include "aten/infer.h"
#include "host/symbol_watch.h"
#include "host/trace_host.h"
#include "ops/operator.h"
#include "python/call.h"
#include "python/refusal.h"
#include "python/results.h"
#include "python/symbols.h"

namespace saker::python {

namespace {

// What the functions of the module share. Calls without symbols use a context of their own, renewed now and then
// because types are never given back.
class InferenceState {
 public:
  aten::Inference& inference() { return inference_; }
  aten::SharedContext contextFor(std::span<const c10::IValue> values) {
    if (aten::SharedContext symbolic = inference_.contextOf(values)) return symbolic;
    if (scratch_->types().size() > kMostTypes) scratch_ = aten::newContext();
    return scratch_;
  }

 private:
  static constexpr size_t kMostTypes = 1 << 16;

  aten::Inference inference_{{&errorText, &unwrapPythonNode}};
  aten::SharedContext scratch_ = aten::newContext();
};

py::tuple infer(InferenceState& state, py::handle op, const py::args& args, const py::kwargs& kwargs) {
  c10::OperatorHandle handle = findOperator(op);
  torch::jit::Stack stack = makeStack(handle, args, kwargs);
  aten::SharedContext context = state.contextFor(stack);
  aten::Inference::Outcome outcome = state.inference().infer(*context, handle, stack);
  if (outcome.inferred.refusal) raiseRefusal(*outcome.inferred.refusal);
  py::list results;
  for (const ir::Type* type : outcome.inferred.results) results.append(toPython(context, type));
  return py::make_tuple(outcome.source == aten::Inference::Source::Table ? "table" : "fallback", results);
}

// Nanoseconds of one inference by the table: with converted arguments, or with the conversion.
double timeInfer(InferenceState& state, py::handle op, const py::args& args, const py::kwargs& kwargs, size_t repeats,
                 bool withConversion) {
  c10::OperatorHandle handle = findOperator(op);
  torch::jit::Stack stack = makeStack(handle, args, kwargs);
  aten::SharedContext context = state.contextFor(stack);
  const aten::Inference::Entry* entry = state.inference().find(handle);
  if (!entry) throw py::value_error("the operator has no entry in the table");
  ops::Inferred first = ops::infer(*entry->op, *context, state.inference().arguments(*context, *entry, stack));
  if (first.refusal) raiseRefusal(*first.refusal);
  using Clock = std::chrono::steady_clock;
  Clock::time_point start;
  if (withConversion) {
    start = Clock::now();
    for (size_t i = 0; i < repeats; ++i) state.inference().infer(*context, handle, stack);
  } else {
    std::span<const ir::Arg> converted = state.inference().arguments(*context, *entry, stack);
    start = Clock::now();
    for (size_t i = 0; i < repeats; ++i) ops::infer(*entry->op, *context, converted);
  }
  std::chrono::duration<double, std::nano> spent = Clock::now() - start;
  return spent.count() / static_cast<double>(repeats);
}

}  // namespace

void bindInfer(py::module_& module) {
  auto state = std::make_shared<InferenceState>();
  module.def(
      "infer",
      [state](py::handle op, const py::tuple& args, const py::dict& kwargs) {
        return infer(*state, op, py::args(args), py::kwargs(kwargs));
      },
      py::arg("op"), py::arg("args") = py::tuple(), py::arg("kwargs") = py::dict(),
      "What the results of a call look like: (\"table\" or \"fallback\", list of results). Raises saker.Refusal.");
  module.def(
      "call_text",
      [state](py::handle op, const py::tuple& args, const py::dict& kwargs) {
        c10::OperatorHandle handle = findOperator(op);
        torch::jit::Stack stack = makeStack(handle, py::args(args), py::kwargs(kwargs));
        aten::SharedContext context = state->contextFor(stack);
        try {
          return state->inference().text(*context, handle, stack);
        } catch (const ops::RefusalException& refused) {
          raiseRefusal(refused.refusal);
        }
      },
      py::arg("op"), py::arg("args") = py::tuple(), py::arg("kwargs") = py::dict(),
      "The call as text, tensors by their types.");
  module.def(
      "time_infer",
      [state](py::handle op, const py::tuple& args, const py::dict& kwargs, size_t repeats, bool withConversion) {
        return timeInfer(*state, op, py::args(args), py::kwargs(kwargs), repeats, withConversion);
      },
      py::arg("op"), py::arg("args"), py::arg("kwargs"), py::arg("repeats"), py::arg("with_conversion") = false,
      "Nanoseconds that one inference by the table takes.");
  module.def(
      "has_entry", [state](py::handle op) { return state->inference().find(findOperator(op)) != nullptr; },
      py::arg("op"), "Whether the table has an entry for the operator.");
  module.def("operators", &operatorTable, "The operators of the table, a dict each.");
  module.def(
      "fallback_counts", [state] { return state->inference().fallbackCounts(); },
      "How often inference fell back to a meta kernel, by operator.");
  module.def("reset_counts", [state] { state->inference().resetCounts(); }, "Sets all counts to zero.");
}

}  // namespace saker::python
