// Is a tensor what operators take by its numbers alone?
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

namespace saker::tracing {

// A strided tensor with memory, with nothing in its key set that gives operators another meaning, but for `also`.
inline bool isPlain(const at::Tensor& tensor, c10::DispatchKey also) {
  using c10::DispatchKey;
  static const c10::DispatchKeySet known =
      c10::DispatchKeySet({DispatchKey::Dense, DispatchKey::ADInplaceOrView, DispatchKey::AutogradFunctionality,
                           DispatchKey::Conjugate, DispatchKey::Negative}) |
      c10::autocast_dispatch_keyset;
  c10::DispatchKeySet others = tensor.unsafeGetTensorImpl()->key_set() - known - c10::DispatchKeySet(also);
  return tensor.layout() == c10::kStrided && tensor.has_storage() &&
         others.highestFunctionalityKey() == DispatchKey::Undefined;
}

// Can the float that it holds be read?
inline bool isReadableNumber(const at::Tensor& tensor) {
  return isPlain(tensor, c10::DispatchKey::ZeroTensor) && !tensor.is_meta() && tensor.is_floating_point() &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
}

}  // namespace saker::tracing
