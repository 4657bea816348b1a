// Autograd's node of operators with bodies: it keeps operands and results, and its backward calls the derivative, which
// is an operator with bodies itself.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/entry_node.h"
#include "aten/torch_version/autograd_node.h"
#include "control/call_derivative.h"
#include "control/derivative.h"

namespace saker::control {

namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// Of a backward for several gradients at a time (is_grads_batched).
bool isBatched(const at::Tensor& tangent) {
  if (!tangent.defined()) return false;
  c10::DispatchKeySet keys = tangent.unsafeGetTensorImpl()->key_set();
  return keys.has(c10::DispatchKey::Batched) || keys.has(c10::DispatchKey::FuncTorchBatched);
}

class BodiesBackward final : public torch::autograd::Node {
 public:
  BodiesBackward(torch::autograd::edge_list edges, Bodies bodies)
      : Node(std::move(edges)), bodies_(std::move(bodies)) {}

  std::string name() const override {
    static constexpr const char* kNames[] = {"CondBackward", "WhileLoopBackward", "WhileLoopDoubleBackward",
                                             "ScanBackward", "CallBackward"};
    return kNames[static_cast<size_t>(bodies_->kind())];
  }

  void keep(const std::vector<at::Tensor>& operands, const std::vector<at::Tensor>& results) {
    for (const at::Tensor& operand : operands) operands_.emplace_back(operand, false);
    for (size_t i = results.size() - savedResults(*bodies_); i < results.size(); ++i) {
      kept_.emplace_back(results[i], true);
    }
  }

  variable_list apply(variable_list&& tangents) override {
    std::vector<at::Tensor> operands, kept;
    std::vector<bool> wanted;
    for (const SavedVariable& each : operands_) operands.push_back(each.unpack());
    for (const SavedVariable& each : kept_) kept.push_back(each.unpack(getptr()));
    for (size_t i = 0; i < operands.size(); ++i) {
      wanted.push_back(next_edge(i).is_valid() && task_should_compute_output(i));
    }
    bool any = false;
    for (const at::Tensor& tangent : tangents) any |= tangent.defined();
    if (!any) return variable_list(operands.size());
    bool batched = std::any_of(tangents.begin(), tangents.end(), isBatched);
    return gradients(bodies_, operands, kept, tangents, wanted, /*byRunning=*/batched);
  }

  void release_variables() override {
    for (SavedVariable& each : operands_) each.reset_data();
    for (SavedVariable& each : kept_) each.reset_data();
  }

 private:
  Bodies bodies_;
  std::vector<SavedVariable> operands_, kept_;
};

// A call keeps its operands as they are: nothing in the graph writes to them.
class CallBackward final : public CallNode {
 public:
  CallBackward(torch::autograd::edge_list edges, Bodies bodies, std::vector<at::Tensor> operands)
      : CallNode(std::move(edges)), bodies_(std::move(bodies)), operands_(std::move(operands)) {}

  std::string name() const override { return "CallBackward"; }
  const BodyNodes& body() const override { return nodes_; }

  variable_list apply(variable_list&& tangents) override {
    std::vector<bool> wanted;
    for (size_t i = 0; i < operands_.size(); ++i) {
      wanted.push_back(next_edge(i).is_valid() && task_should_compute_output(i));
    }
    bool any = false;
    for (const at::Tensor& tangent : tangents) any |= tangent.defined();
    if (!any) return variable_list(operands_.size());
    return gradientsOfCall(bodies_, operands_, tangents, wanted, nodes_);
  }

 private:
  Bodies bodies_;
  std::vector<at::Tensor> operands_;
  BodyNodes nodes_;
};

// Of several results the first `seen`, which the program gets, have a node of their own each, as those of operators
// have.
void giveResults(const aten::NodePtr& node, const std::vector<at::Tensor>& results, size_t seen) {
  auto follows = [](const at::Tensor& result) { return isDifferentiable(result); };
  bool several = std::count_if(results.begin(), results.end(), follows) > 1;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!isDifferentiable(results[i])) {
      node->add_input_metadata(torch::autograd::Node::undefined_input());
    } else if (several && i < seen) {
      auto entry = aten::makeNode<aten::EntryNode>(node);
      entry->link(aten::EntryNode::add(entry, results[i]));
    } else {
      torch::autograd::impl::set_gradient_edge(results[i], {node, node->add_input_metadata(results[i])});
    }
  }
}

bool followed(const std::vector<at::Tensor>& operands) {
  if (!c10::GradMode::is_enabled()) return false;
  for (const at::Tensor& operand : operands) {
    if (operand.requires_grad()) return true;
  }
  return false;
}

void callFollowed(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  std::vector<at::Tensor> operands = (*stack)[stack->size() - 2].toTensorVector();
  Bodies bodies = stack->back().toCustomClass<ClosedBodies>();
  if (!followed(operands)) {
    at::AutoDispatchBelowADInplaceOrView below;
    return op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
  TORCH_CHECK(!bodies->isRandom(), "gradients of an operator whose body draws random numbers are not known");
  if (!savesItself(*bodies)) {
    size_t asked = bodies->resultCount();
    std::vector<at::Tensor> results = tracing::callBodies(operands, withSaved(bodies));
    results.resize(asked);
    stack->resize(stack->size() - 2);
    stack->emplace_back(std::move(results));
    return;
  }
  bool isCall = bodies->kind() == ClosedBodies::Kind::Call;
  auto edges = torch::autograd::collect_next_edges(operands);
  aten::NodePtr node;
  BodiesBackward* keeping = nullptr;
  if (isCall) {
    node = aten::makeNode<CallBackward>(std::move(edges), bodies, operands);
  } else {
    auto made = aten::makeNode<BodiesBackward>(std::move(edges), bodies);
    keeping = made.get();
    node = std::move(made);
  }
  {
    at::AutoDispatchBelowADInplaceOrView below;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
  std::vector<at::Tensor> results = stack->back().toTensorVector();
  giveResults(node, results, keeping ? results.size() - savedResults(*bodies) : 0);
  if (keeping) keeping->keep(operands, results);
  stack->back() = c10::IValue(results);
}

}  // namespace

TORCH_LIBRARY_IMPL(saker, Autograd, library) {
  library.impl("bodies", torch::CppFunction::makeFromBoxedFunction<&callFollowed>());
}

}  // namespace saker::control
