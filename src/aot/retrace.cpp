#include "aot/retrace.h"

#include "aot/joint.h"
#include "capture/closed_bodies.h"
#include "control/interpret.h"
#include "runtime/recorded_calls.h"

namespace saker::aot {

namespace {

// What a node became, at the end of the trace, is in the checkpoint that the node was in.
void stayInCheckpoint(const ir::Node& recorded, tracing::Trace& trace, uint32_t since) {
  ir::Attributes asked = recorded.attributes();
  if (!asked.isCheckpointed()) return;
  for (ir::Node* node = trace.body()->last(); node && node->id() >= since; node = node->prev()) {
    ir::Attributes known = node->attributes();
    known.checkpoint = asked.checkpoint;
    known.region = asked.region;
    trace.graph().setAttributes(node, known);
  }
}

}  // namespace

std::vector<at::Tensor> retrace(const runtime::Program& recording, const ir::Graph& graph, tracing::Trace& trace,
                                const std::vector<at::Tensor>& inputs) {
  if (!recording.gradients.empty()) throw NotAheadOfTime(Why::SetsGrad);
  std::vector<at::Tensor> given;
  for (const runtime::Source& source : recording.sources) {
    bool argument = source.kind == runtime::Source::Kind::Argument;
    given.push_back(argument ? inputs[source.argument] : source.tensor);
  }
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    if (!node->regions().empty() && !tracing::ClosedBodies::kindOf(*node))
      throw NotAheadOfTime(Why::BodyOfChangingSizes, node->op()->qualified);
  }
  runtime::RecordedCalls calls(recording, /*withAutograd=*/true);
  control::Interpretation how{recording.objects, trace};
  how.call = [&](const ir::Node& node, const c10::OperatorHandle& handle, bool makes, torch::jit::Stack& stack) {
    uint32_t since = trace.graph().nodeLimit();
    calls.call(node, handle, makes, stack);
    stayInCheckpoint(node, trace, since);
  };
  how.number = [](const ir::Value*) -> c10::IValue { throw NotAheadOfTime(Why::NumberIsData); };
  std::vector<at::Tensor> results;
  for (c10::IValue& value : control::interpret(graph, how, given)) {
    if (results.size() == recording.results) break;
    results.push_back(value.isTensor() ? value.toTensor() : at::Tensor());
    size_t i = results.size() - 1;
    bool detached = results[i].defined() && results[i].requires_grad() && !recording.resultRequiresGrad[i];
    if (detached) results[i] = results[i].detach();
  }
  return results;
}

}  // namespace saker::aot
