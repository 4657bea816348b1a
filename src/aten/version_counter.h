#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
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

namespace detail {

// The counter itself is private, and can only be set from outside; names in an explicit instantiation may be private.
auto& counterIn(const c10::VariableVersion& version);
template <auto Member>
struct CounterAccess {
  friend auto& counterIn(const c10::VariableVersion& version) { return (*(version.*Member)).version_; }
};
template struct CounterAccess<&c10::VariableVersion::version_counter_>;

}  // namespace detail

// Takes `count` writes back, whatever other threads count meanwhile.
inline void takeBackWrites(const at::Tensor& tensor, uint32_t count) {
  const c10::VariableVersion& version = tensor.unsafeGetTensorImpl()->version_counter();
  if (version.enabled()) detail::counterIn(version).fetch_sub(count);
}

}  // namespace saker::aten
