#include "aot/retrace.h"

#include <c10/core/GradMode.h>

#include "aot/joint.h"
#include "aten/call_node.h"
#include "aten/sym_node.h"
#include "ops/operator.h"
#include "runtime/recorded_calls.h"

namespace saker::aot {

namespace {

class Retrace final : private aten::CallEnvironment {
 public:
  Retrace(const runtime::Program& recording, tracing::Trace& trace)
      : recording_(recording), trace_(trace), slots_(recording.graph->valueLimit()) {}

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) {
    std::span<ir::Value* const> parameters = recording_.graph->top()->parameters();
    if (!recording_.gradients.empty()) throw NotAheadOfTime(Why::SetsGrad);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const runtime::Source& source = recording_.sources[i];
      bool argument = source.kind == runtime::Source::Kind::Argument;
      slots_[parameters[i]->id()] = argument ? inputs[source.argument] : source.tensor;
    }
    runtime::RecordedCalls calls(recording_, /*withAutograd=*/true);
    const ir::Node* node = recording_.graph->top()->first();
    for (; !node->isReturn(); node = node->next()) call(*node, calls);
    std::vector<at::Tensor> results;
    for (size_t i = 0; i < recording_.results; ++i) {
      const ir::Arg& returned = node->arg(i);
      results.push_back(returned.isValue() ? slots_[returned.toValue()->id()] : at::Tensor());
      bool detached = results.back().defined() && results.back().requires_grad() && !recording_.resultRequiresGrad[i];
      if (detached) results.back() = results.back().detach();
    }
    return results;
  }

 private:
  void call(const ir::Node& node, runtime::RecordedCalls& calls) {
    if (!node.regions().empty()) throw NotAheadOfTime(Why::BodyOfChangingSizes, node.op()->qualified);
    const c10::OperatorHandle& handle = handles_.find(node.op());
    torch::jit::Stack stack;
    aten::pushArguments(node, handle.schema(), *this, stack);
    calls.call(node, handle, node.operandCount() == 0 && ops::of(&node), stack);
    size_t next = 0;
    auto take = [&](const at::Tensor& tensor) {
      if (next < node.resultCount()) slots_[node.result(next++)->id()] = tensor;
    };
    for (c10::IValue& value : stack) {
      if (value.isTensorList()) {
        for (const at::Tensor& each : value.toTensorVector()) take(each);
      } else if (value.isTensor()) {
        take(value.toTensor());
      } else {
        ++next;
      }
    }
  }

  const at::Tensor& tensor(const ir::Value* value) override { return slots_[value->id()]; }
  c10::IValue number(const ir::Value*) override { throw NotAheadOfTime(Why::NumberIsData); }
  c10::IValue opaque(const ir::OpaqueRef& reference) override { return recording_.objects.at(reference.number); }
  c10::IValue expression(const sym::Node* node) override {
    if (node->isInt()) return aten::toSymInt(trace_.context(), sym::Int(node));
    if (node->isBool()) return aten::toSymBool(trace_.context(), sym::Bool(node));
    return aten::toSymFloat(trace_.context(), sym::Float(node));
  }
  at::Tensor numberTensor(const c10::IValue& number) override {
    bool symbolic = number.isSymInt() || number.isSymFloat() || number.isSymBool();
    return symbolic ? trace_.placeholder(number) : CallEnvironment::numberTensor(number);
  }

  const runtime::Program& recording_;
  tracing::Trace& trace_;
  aten::Handles handles_;
  std::vector<at::Tensor> slots_;
};

}  // namespace

std::vector<at::Tensor> retrace(const runtime::Program& recording, tracing::Trace& trace,
                                const std::vector<at::Tensor>& inputs) {
  return Retrace(recording, trace).run(inputs);
}

}  // namespace saker::aot
