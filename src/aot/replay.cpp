#include "aot/replay.h"

#include <ATen/ops/as_strided.h>
#include <c10/core/GradMode.h>

#include "aten/call_node.h"

namespace saker::aot {

namespace {

// The arguments of a view: one tensor, and numbers.
class ViewArguments final : public aten::CallEnvironment {
 public:
  ViewArguments(const at::Tensor& base, const sym::Assignment& symbols) : base_(base), symbols_(symbols) {}
  const at::Tensor& tensor(const ir::Value*) override { return base_; }
  c10::IValue number(const ir::Value*) override { throw std::runtime_error("a view has an argument of another node"); }
  c10::IValue opaque(const ir::OpaqueRef&) override { throw std::runtime_error("a view has an object as argument"); }
  const sym::Assignment& symbols() override { return symbols_; }

 private:
  const at::Tensor& base_;
  const sym::Assignment& symbols_;
};

at::Tensor call(const ViewStep& step, const at::Tensor& base, const sym::Assignment& symbols, aten::Handles& handles) {
  const c10::OperatorHandle& handle = handles.find(step.node->op());
  torch::jit::Stack stack;
  ViewArguments arguments(base, symbols);
  aten::pushArguments(*step.node, handle.schema(), arguments, stack);
  c10::AutoGradMode mode(step.gradMode && c10::GradMode::is_enabled());
  handle.callBoxed(&stack);
  if (stack[0].isTensor()) return stack[0].toTensor();
  return stack[0].toTensorList().get(step.result);
}

}  // namespace

at::Tensor replay(const Output& output, const at::Tensor& base, const Joint& joint) {
  sym::Assignment symbols = sym::exampleAssignment(joint.program->context->symbols());
  if (output.strided) {
    runtime::Geometry place = runtime::geometryOf(*output.strided, symbols);
    return at::as_strided(base, place.sizes, place.strides, place.offset);
  }
  aten::Handles handles;
  at::Tensor view = base;
  for (const ViewStep& step : output.steps) view = call(step, view, symbols, handles);
  return view;
}

}  // namespace saker::aot
