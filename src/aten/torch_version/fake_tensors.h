// PyTorch's own FakeTensors in C++, which carry the key of a trace (trace_key.h).
//
// 2.14: tensors on the meta device that say they are on another one, and a mode that includes the key on its thread. No
// kernel of PyTorch's lies on the key in 2.14 and 2.15: every operator on such a tensor raises NotImplementedError, and
// nothing in Python makes one. A version that registers a fallback there cannot be built against as it is: a second
// fallback on one key is an error when libsaker is loaded.
#pragma once

#include <c10/core/TensorImpl.h>

#include "aten/torch_version/version.h"

#if SAKER_TORCH_AT_LEAST(2, 14)
#include <c10/core/impl/FakeTensorModeTLS.h>
#endif

namespace saker::aten {

#if SAKER_TORCH_AT_LEAST(2, 14)

inline constexpr bool kTorchHasFakeTensors = true;

// What makes a tensor fake is protected; a class without members of its own may still reach it.
struct ExtraMetaAccess : c10::TensorImpl {
  static bool hasFakeDevice(const c10::TensorImpl& tensor) {
    const auto& extra = tensor.*(&ExtraMetaAccess::extra_meta_);
    return extra && extra->fake_device_.has_value();
  }
};

inline bool isPyTorchsFake(const c10::TensorImpl& tensor) {
  return tensor.key_set().has(c10::DispatchKey::Fake) && ExtraMetaAccess::hasFakeDevice(tensor);
}

inline bool inPyTorchsFakeMode() { return c10::impl::FakeTensorModeTLS::get_state() != nullptr; }

#else

// 2.13 has the device that such a tensor says it is on, but neither the key nor the mode.
inline constexpr bool kTorchHasFakeTensors = false;
inline bool isPyTorchsFake(const c10::TensorImpl&) { return false; }
inline bool inPyTorchsFakeMode() { return false; }

#endif

}  // namespace saker::aten
