#include "aten/kept_call.h"

#include <ATen/record_function.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>

namespace saker::aten {

namespace {

// What every tensor of the CPU has, and operators below autograd do not go to.
constexpr c10::DispatchKeySet kUsual =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
constexpr c10::DispatchKeySet kPlain{c10::DispatchKey::CPU};

std::atomic<uint64_t> preparedCalls = 0, missedRuns = 0;

bool isPlain(const at::Tensor& tensor) {
  return tensor.defined() && tensor.key_set() - kUsual == kPlain && !tensor.unsafeGetTensorImpl()->is_wrapped_number();
}

}  // namespace

bool KeptCall::Form::fits() const {
  const c10::TensorImpl* impl = at->unsafeGetTensorImpl();
  return impl->key_set() == keys && impl->dtype() == dtype && !impl->is_wrapped_number() &&
         impl->sizes() == c10::IntArrayRef(sizes) && impl->strides() == c10::IntArrayRef(strides);
}

bool KeptCall::run() {
  for (const Form& form : forms_) {
    if (form.fits()) continue;
    ++missedRuns;
    return false;
  }
  compute();
  return true;
}

uint64_t KeptCall::prepared() { return preparedCalls; }
uint64_t KeptCall::missed() { return missedRuns; }

void KeptCall::keep(const KeptArguments& arguments) {
  for (const KeptTensor& each : arguments.tensors) {
    if (!each.at || each.fixed) continue;
    const at::Tensor& tensor = *each.at;
    forms_.push_back(
        {&tensor, tensor.key_set(), tensor.dtype(), c10::DimVector(tensor.sizes()), c10::DimVector(tensor.strides())});
  }
}

std::unique_ptr<KeptCall> KeptKernel::prepare(const KeptArguments& arguments) const {
  for (const KeptTensor& each : arguments.tensors) {
    if (each.at && !isPlain(*each.at)) return nullptr;
  }
  for (const c10::IValue& value : arguments.values) {
    if (value.isTensor() && value.toTensor().key_set() - kUsual != kPlain) return nullptr;
  }
  if (!isPlain(*arguments.result.at)) return nullptr;
  try {
    std::unique_ptr<KeptCall> made = make_(arguments);
    preparedCalls += made != nullptr;
    return made;
  } catch (const c10::Error&) {
    return nullptr;  // it is the operator itself that is to raise
  }
}

bool reachesKernels() {
  if (at::hasCallbacks()) return false;  // a profiler wants to see operators
  c10::impl::LocalDispatchKeySet local = c10::impl::tls_local_dispatch_key_set();
  constexpr c10::DispatchKeySet unasked{c10::DispatchKey::BackendSelect};
  return ((kPlain | kUsual | local.included_) - local.excluded_ - unasked).highestPriorityTypeId() ==
         c10::DispatchKey::CPU;
}

}  // namespace saker::aten
