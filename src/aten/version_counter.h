#pragma once

#include <ATen/core/Tensor.h>

namespace saker::aten {

// Does a write to one move the version of the other? Not for inference tensors. Counters have no identity that can be
// asked for: one is moved and put back.
inline bool sharesVersion(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_inference() || b.is_inference()) return false;
  c10::VariableVersion counter = a.unsafeGetTensorImpl()->version_counter();
  uint32_t before = counter.current_version();
  if (b._version() != static_cast<int64_t>(before)) return false;
  counter.bump();
  bool shared = b._version() != static_cast<int64_t>(before);
  counter.set_version(static_cast<int64_t>(before));
  return shared;
}

}  // namespace saker::aten
