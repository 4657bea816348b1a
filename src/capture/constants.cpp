#include "capture/constants.h"

#include <unordered_map>

#include "aten/call_node.h"
#include "ops/operator.h"
#include "passes/memory.h"

namespace saker::tracing {

namespace {

constexpr size_t kMostNodes = 256;
constexpr int64_t kMostElements = 4096;

bool isSmall(const ir::TensorType& type) {
  if (type.symbolic) return false;
  int64_t elements = 1;
  for (sym::Int size : type.sizes()) elements *= size.constant();
  return elements <= kMostElements;
}

// Runs the recorded nodes that a memory is made by.
class Evaluation final : public aten::CallEnvironment {
 public:
  explicit Evaluation(Trace& trace)
      : trace_(trace), memory_(trace.graph(), {false, passes::Memory::Assumptions::Unknown::Nothing}) {
    for (const Input& input : trace.inputs()) {
      if (input.literal) values_[input.value] = input.tensor;
    }
  }

  at::Tensor run(const ir::Value* wanted) {
    follow();
    if (tainted(wanted)) return {};
    needed_.insert({find(wanted), true});
    std::vector<const ir::Node*> nodes;
    for (const ir::Node* node = trace_.graph().top()->last(); node; node = node->prev()) {
      if (!touchesNeeded(*node)) continue;
      nodes.push_back(node);
      if (nodes.size() > kMostNodes) return {};
      for (const ir::Use& use : node->operands()) needed_.insert({find(use.value), true});
    }
    for (size_t i = nodes.size(); i-- > 0;) {
      if (!call(*nodes[i])) return {};
    }
    auto found = values_.find(wanted);
    return found == values_.end() ? at::Tensor() : found->second;
  }

  const at::Tensor& tensor(const ir::Value* value) override { return values_.at(value); }
  c10::IValue number(const ir::Value*) override { throw std::runtime_error("a number of another node"); }
  c10::IValue opaque(const ir::OpaqueRef& reference) override { return trace_.kept()[reference.number]; }
  c10::IValue expression(const sym::Node* node) override { return aten::evaluate(node, symbols_); }

 private:
  // Which memory depends on more than constants.
  void follow() {
    for (const ir::Value* parameter : trace_.graph().top()->parameters()) taint(parameter, !values_.count(parameter));
    for (const ir::Node* node = trace_.graph().top()->first(); node; node = node->next()) {
      const ops::Operator* op = ops::of(node);
      bool bad =
          !op || !node->regions().empty() || op->isRandom() || op->has(ops::kEffect) || op->has(ops::kReadsState);
      for (const ir::Use& use : node->operands()) bad |= tainted(use.value);
      for (size_t i = 0; i < node->resultCount(); ++i) {
        const ir::Value* result = node->result(i);
        bad |= result->tensor() && !isSmall(*result->tensor());
      }
      for (size_t i = 0; i < node->resultCount(); ++i) taint(node->result(i), bad);
      if (bad && op && op->writes) {
        for (const ir::Use& use : node->operands()) taint(use.value, true);
      }
    }
  }

  uint32_t find(const ir::Value* value) const { return memory_.classOf(value); }
  void taint(const ir::Value* value, bool bad) {
    if (bad) tainted_[find(value)] = true;
  }
  bool tainted(const ir::Value* value) const { return tainted_.count(find(value)); }

  bool touchesNeeded(const ir::Node& node) const {
    for (size_t i = 0; i < node.resultCount(); ++i) {
      if (needed_.count(find(node.result(i)))) return true;
    }
    const ops::Operator* op = ops::of(&node);
    if (!op || !op->writes) return false;
    for (const ir::Use& use : node.operands()) {
      if (needed_.count(find(use.value))) return true;
    }
    return false;
  }

  bool call(const ir::Node& node) {
    for (const ir::Use& use : node.operands()) {
      if (!values_.count(use.value)) return false;
    }
    const c10::OperatorHandle& handle = handles_.find(node.op());
    torch::jit::Stack stack;
    aten::pushArguments(node, handle.schema(), *this, stack);
    handle.callBoxed(&stack);
    size_t result = 0;
    for (const c10::IValue& value : stack) {
      if (!value.isTensor()) return false;
      values_[node.result(result++)] = value.toTensor();
    }
    return true;
  }

  Trace& trace_;
  aten::Handles handles_;
  sym::Assignment symbols_;
  passes::Memory memory_;
  std::unordered_map<const ir::Value*, at::Tensor> values_;
  std::unordered_map<uint32_t, bool> tainted_, needed_;  // by memory
};

}  // namespace

at::Tensor constantOf(Trace& trace, const at::Tensor& tensor) {
  if (trace.outer()) return {};  // of a body, whose node is not in the graph yet
  if (!tensor.has_storage() || tensor.numel() > kMostElements) return {};
  if (!trace.isPending(tensor)) return {};
  return Evaluation(trace).run(trace.valueOf(tensor));
}

}  // namespace saker::tracing
