#include "runtime/recorded_calls.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <optional>

namespace saker::runtime {

void callFollowed(const ir::Node& node, const c10::OperatorHandle& handle, torch::jit::Stack& stack) {
  if (node.op()->qualified == "aten::copy") {
    stack = {at::empty_like(stack[0].toTensor()).copy_(stack[1].toTensor())};
  } else {
    handle.callBoxed(&stack);
  }
}

RecordedCalls::RecordedCalls(const Program& program, bool withAutograd)
    : withAutograd_(withAutograd),
      around_(c10::impl::tls_local_dispatch_key_set()),
      mayGrad_(c10::GradMode::is_enabled() || !program.gradAround) {}

void RecordedCalls::call(const ir::Node& node, const c10::OperatorHandle& handle, bool makes,
                         torch::jit::Stack& stack) {
  ir::Attributes recorded = node.attributes();
  bool above = withAutograd_ || recorded.shown;
  if (!above && !recorded.inferenceToggled) return handle.callBoxed(&stack);
  std::optional<c10::impl::ForceDispatchKeyGuard> keys;
  if (above && !withAutograd_) keys.emplace(around_);
  std::optional<c10::InferenceMode> inference;
  if (recorded.inferenceToggled) inference.emplace(!c10::InferenceMode::is_enabled());
  if (!above) return handle.callBoxed(&stack);
  c10::AutoGradMode mode(!recorded.noGrad && mayGrad_);
  if (recorded.ownVersion) {
    stack[0] = stack[0].toTensor().variable_data();
    return;
  }
  // Bindings make tensors below what counts writes.
  std::optional<at::AutoDispatchBelowADInplaceOrView> making;
  if (makes) making.emplace();
  callFollowed(node, handle, stack);
}

}  // namespace saker::runtime
