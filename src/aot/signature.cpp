#include "aot/signature.h"

#include <ATen/Context.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/autograd/variable.h>

#include "aot/sharing.h"
#include "aten/autocast_state.h"
#include "capture/trace.h"

namespace saker::aot {

template <typename Out>
void tellSignature(std::span<const at::Tensor> arguments, Out& out) {
  c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  // Bits of back ends mean nothing here, and stay behind where a guard excluded all keys for a while.
  out.push_back(local.included_.raw_repr() & ~c10::full_backend_mask);
  out.push_back(local.excluded_.raw_repr() & ~c10::full_backend_mask);
  uint64_t state = c10::GradMode::is_enabled();
  state |= static_cast<uint64_t>(at::globalContext().deterministicAlgorithms()) << 1;
  state |= static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) << 8;
  for (auto device : {at::kCPU, at::kCUDA}) {
    state = state << 8 | static_cast<uint64_t>(aten::autocast::dtypeOf(device));
  }
  out.push_back(state);
  for (const at::Tensor& argument : arguments) {
    if (!argument.defined()) {
      out.push_back(0);
      continue;
    }
    bool grad = argument.requires_grad();
    out.push_back(argument.unsafeGetTensorImpl()->key_set().raw_repr());
    out.push_back(static_cast<uint64_t>(grad) << 1 | static_cast<uint64_t>(grad && argument.is_leaf()));
  }
  for (auto [first, second] : aten::sharingPairs(arguments)) {
    const at::Tensor &a = arguments[first], &b = arguments[second];
    uint64_t how = a.is_same(b);
    how |= static_cast<uint64_t>(autogradBase(a).is_same(autogradBase(b))) << 1;
    how |= static_cast<uint64_t>(sharesVersion(a, b)) << 2;
    how |= static_cast<uint64_t>(a.is_same(autogradBase(b))) << 3 | static_cast<uint64_t>(b.is_same(autogradBase(a)))
                                                                        << 4;
    bool apart = liesApart(a, b);
    how |= static_cast<uint64_t>(autogradBase(a).requires_grad()) << 7;
    how |= static_cast<uint64_t>(apart) << 5 | static_cast<uint64_t>(!sameStorage(a, b)) << 6;
    // Where they lie decides whether they overlap.
    for (const at::Tensor* tensor : {&a, &b}) {
      if (apart) break;
      out.push_back(static_cast<uint64_t>(tensor->storage_offset()));
      for (int64_t size : tensor->sizes()) out.push_back(static_cast<uint64_t>(size));
      for (int64_t stride : tensor->strides()) out.push_back(static_cast<uint64_t>(stride));
    }
    out.push_back(first << 32 | second);
    out.push_back(how);
  }
}

template void tellSignature(std::span<const at::Tensor> arguments, Signature& out);
template void tellSignature(std::span<const at::Tensor> arguments, SignatureMatch& out);

Signature signatureOf(std::span<const at::Tensor> arguments) {
  Signature out;
  out.reserve(2 * arguments.size() + 4);
  tellSignature(arguments, out);
  return out;
}

bool threadBelongsToEager() {
  if (torch::autograd::AnomalyMode::is_enabled() || tracing::current()) return true;
  if (c10::impl::TorchDispatchModeTLS::stack_len() > 0) return true;
  // Tangents of dual numbers travel with arguments and with what the function closes over.
  if (torch::autograd::ForwardADLevel::try_get_by_idx(0)) return true;
  constexpr c10::DispatchKeySet transforms{c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                                           c10::DispatchKey::FuncTorchDynamicLayerBackMode};
  return c10::impl::tls_local_dispatch_key_set().included_.has_any(transforms);
}

bool belongToEager(std::span<const at::Tensor> arguments) {
  constexpr c10::DispatchKeySet strange{c10::DispatchKey::Python,           c10::DispatchKey::Batched,
                                        c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper,
                                        c10::DispatchKey::Functionalize,    c10::DispatchKey::NestedTensor,
                                        c10::DispatchKey::Quantized};
  for (const at::Tensor& argument : arguments) {
    if (!argument.defined()) continue;
    const c10::TensorImpl& impl = *argument.unsafeGetTensorImpl();
    if (impl.key_set().has_any(strange) || !impl.has_storage()) return true;
    if (tracing::pendingStorage(impl)) return true;
  }
  return false;
}

}  // namespace saker::aot
