#include "aot/replay.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/variable.h>

#include "aot/view_node.h"

namespace saker::aot {

namespace {

// The arguments of a view: one tensor, and numbers.
class ViewArguments final : public aten::CallEnvironment {
 public:
  ViewArguments(const at::Tensor& base, const sym::Assignment& symbols, const std::vector<c10::IValue>& objects)
      : base_(base), symbols_(symbols), objects_(objects) {}
  const at::Tensor& tensor(const ir::Value*) override { return base_; }
  c10::IValue number(const ir::Value* value) override {
    const ir::ScalarType* type = ir::asScalar(value->type());
    std::optional<int64_t> known =
        type && type->expression ? sym::evaluateInt(type->expression, symbols_) : std::nullopt;
    if (!known) throw std::runtime_error("a view has an argument that is not known when it is made again");
    return *known;
  }
  c10::IValue opaque(const ir::OpaqueRef& reference) override { return objects_.at(reference.number); }
  c10::IValue expression(const sym::Node* node) override { return aten::evaluate(node, symbols_); }

 private:
  const at::Tensor& base_;
  const sym::Assignment& symbols_;
  const std::vector<c10::IValue>& objects_;
};

bool isConstant(const ir::Arg& arg) {
  if (arg.isList()) {
    for (const ir::Arg& item : arg.toList()) {
      if (!isConstant(item)) return false;
    }
    return true;
  }
  return arg.kind() != ir::Arg::Kind::SymInt && arg.kind() != ir::Arg::Kind::SymBool &&
         arg.kind() != ir::Arg::Kind::SymFloat && !(arg.isValue() && !arg.toValue()->tensor());
}

// As set_ does, whose count of versions is that of the call.
void giveMemory(const at::Tensor& source, const at::Tensor& target) {
  c10::TensorImpl& impl = *target.unsafeGetTensorImpl();
  impl.set_storage_keep_dtype(source.storage());
  impl.set_sizes_and_strides(source.sizes(), source.strides(), source.storage_offset());
}

}  // namespace

Replay::Replay(const std::vector<Step>& steps, const std::vector<c10::IValue>& objects) : objects_(objects) {
  aten::Handles handles;
  const at::Tensor none;
  const sym::Assignment symbols;
  for (const Step& step : steps) {
    Call made{step, std::nullopt, true, {}};
    if (step.node) {
      made.handle = handles.find(step.node->op());
      for (const ir::Arg& arg : step.node->args()) made.constant &= isConstant(arg);
      if (made.constant) {
        torch::jit::Stack stack;
        ViewArguments arguments(none, symbols, objects);
        aten::pushArguments(*step.node, made.handle->schema(), arguments, stack);
        made.arguments.assign(stack.begin(), stack.end());
      }
    }
    calls_.push_back(std::move(made));
  }
}

void Replay::run(std::vector<at::Tensor>& tensors, const sym::Assignment& symbols) const {
  for (const Call& each : calls_) call(each, tensors, symbols);
}

void Replay::call(const Call& call, std::vector<at::Tensor>& tensors, const sym::Assignment& symbols) const {
  const Step& step = call.step;
  const at::Tensor& source = tensors[step.source];
  if (step.kind == Step::Kind::Data) {
    tensors[step.target] = source.variable_data();
    return;
  }
  if (step.kind == Step::Kind::Memory) return giveMemory(source, tensors[step.target]);
  if (step.kind == Step::Kind::Leaf) {
    source.set_requires_grad(true);
    return;
  }
  torch::jit::Stack stack(call.arguments.begin(), call.arguments.end());
  if (call.constant) {
    stack[0] = source;
  } else {
    ViewArguments arguments(source, symbols, objects_);
    aten::pushArguments(*step.node, call.handle->schema(), arguments, stack);
  }
  {
    c10::AutoGradMode mode(step.gradMode);
    call.handle->callBoxed(&stack);
  }
  if (step.kind == Step::Kind::Geometry) return;
  if (stack[0].isTensor()) {
    tensors[step.target] = std::move(stack[0]).toTensor();
    if (step.ownNode) giveOwnNode(std::span(tensors).subspan(step.target, 1));
    return;
  }
  c10::List<at::Tensor> list = std::move(stack[0]).toTensorList();
  for (size_t i = 0; i < list.size(); ++i) tensors[step.target + i] = list.extract(i);
  if (step.ownNode) giveOwnNode(std::span(tensors).subspan(step.target, list.size()));
}

}  // namespace saker::aot
