#pragma once

#include <ATen/core/Tensor.h>

#include <cstring>

namespace saker::aten {

// Which counter a tensor counts its writes with, to be compared and nothing else; nullptr: an inference tensor has
// none. PyTorch has no name for a counter, but a c10::VariableVersion is a pointer to one and nothing else. (Moving one
// counter to see whether the other moves would lose what another thread counts meanwhile.)
inline const void* counterOf(const at::Tensor& tensor) {
  const c10::VariableVersion& version = tensor.unsafeGetTensorImpl()->version_counter();
  static_assert(sizeof(version) == sizeof(void*));
  const void* counter = nullptr;
  std::memcpy(&counter, static_cast<const void*>(&version), sizeof(counter));
  return version.enabled() ? counter : nullptr;
}

// Does a write to one move the version of the other? Not for inference tensors.
inline bool sharesVersion(const at::Tensor& a, const at::Tensor& b) {
  const void* counter = counterOf(a);
  return counter && counter == counterOf(b);
}

}  // namespace saker::aten
