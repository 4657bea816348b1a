#include "control/interpret.h"

#include <c10/core/GradMode.h>

#include "aten/call_node.h"
#include "aten/sym_node.h"
#include "capture/closed_bodies.h"
#include "ops/operator.h"
#include "runtime/recorded_calls.h"

namespace saker::control {

void callAsRecorded(const ir::Node& node, const c10::OperatorHandle& handle, torch::jit::Stack& stack) {
  ir::Attributes recorded = node.attributes();
  if (recorded.ownVersion) {
    stack[0] = stack[0].toTensor().variable_data();
    return;
  }
  c10::AutoGradMode mode(!recorded.noGrad && c10::GradMode::is_enabled());
  runtime::callFollowed(node, handle, stack);
}

namespace {

class Interpreter final : private aten::CallEnvironment {
 public:
  Interpreter(const ir::Graph& graph, const Interpretation& how)
      : graph_(graph), how_(how), slots_(graph.valueLimit()) {}

  std::vector<c10::IValue> run(const std::vector<at::Tensor>& inputs) {
    std::span<ir::Value* const> parameters = graph_.top()->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) slots_[parameters[i]->id()] = inputs[i];
    const ir::Node* node = graph_.top()->first();
    for (; !node->isReturn(); node = node->next()) node->regions().empty() ? call(*node) : callBodies(*node);
    std::vector<c10::IValue> results;
    for (const ir::Arg& returned : node->args()) {
      results.emplace_back(returned.isValue() ? c10::IValue(slots_[returned.toValue()->id()]) : c10::IValue());
    }
    return results;
  }

 private:
  void call(const ir::Node& node) {
    const c10::OperatorHandle& handle = handles_.find(node.op());
    torch::jit::Stack stack;
    aten::pushArguments(node, handle.schema(), *this, stack);
    if (how_.call) {
      how_.call(node, handle, node.operandCount() == 0 && ops::of(&node), stack);
    } else {
      callAsRecorded(node, handle, stack);
    }
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

  void callBodies(const ir::Node& node) {
    std::vector<ir::Value*> operands;
    auto bodies = tracing::ClosedBodies::ofNode(node, how_.objects, operands);
    std::vector<at::Tensor> given;
    for (const ir::Value* operand : operands) given.push_back(slots_[operand->id()]);
    c10::AutoGradMode mode(!node.attributes().noGrad && c10::GradMode::is_enabled());
    std::vector<at::Tensor> results =
        isAsRecorded(*bodies, given) ? tracing::callBodies(given, bodies) : callInPlace(*bodies, given);
    for (size_t i = 0; i < results.size(); ++i) slots_[node.result(i)->id()] = results[i];
  }

  // A call is of operands as they were when it was made.
  bool isAsRecorded(const tracing::ClosedBodies& bodies, const std::vector<at::Tensor>& given) {
    if (bodies.kind() != tracing::ClosedBodies::Kind::Call) return true;
    std::span<ir::Value* const> parameters = bodies.main().top()->parameters();
    for (size_t i = 0; i < given.size(); ++i) {
      if (how_.trace.typeOf(given[i]) != parameters[i]->type()) return false;
    }
    return true;
  }

  std::vector<at::Tensor> callInPlace(const tracing::ClosedBodies& bodies, const std::vector<at::Tensor>& given) {
    std::vector<at::Tensor> results;
    for (c10::IValue& value : interpret(bodies.main(), how_, given)) results.push_back(std::move(value).toTensor());
    return results;
  }

  const at::Tensor& tensor(const ir::Value* value) override { return slots_[value->id()]; }
  c10::IValue number(const ir::Value* value) override {
    if (how_.number) return how_.number(value);
    throw ops::RefusalException{{ops::Reason::DataDependent, "a number in a body is data"}};
  }
  c10::IValue opaque(const ir::OpaqueRef& reference) override { return how_.objects.at(reference.number); }
  c10::IValue expression(const sym::Node* node) override {
    const std::shared_ptr<ir::Context>& context = how_.trace.context();
    if (node->isInt()) return aten::toSymInt(context, sym::Int(node));
    if (node->isBool()) return aten::toSymBool(context, sym::Bool(node));
    return aten::toSymFloat(context, sym::Float(node));
  }
  at::Tensor numberTensor(const c10::IValue& number) override {
    bool symbolic = number.isSymInt() || number.isSymFloat() || number.isSymBool();
    return symbolic ? how_.trace.placeholder(number) : CallEnvironment::numberTensor(number);
  }

  const ir::Graph& graph_;
  const Interpretation& how_;
  aten::Handles handles_;
  std::vector<at::Tensor> slots_;
};

}  // namespace

std::vector<c10::IValue> interpret(const ir::Graph& graph, const Interpretation& how,
                                   const std::vector<at::Tensor>& inputs) {
  return Interpreter(graph, how).run(inputs);
}

}  // namespace saker::control
