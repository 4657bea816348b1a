// The one place that knows which dispatch key trace tensors carry and how a fallback gets there.
//
// DispatchKey::Fake lies below autograd, autocast and functorch and above every backend, so what arrives there is what
// a backend would be asked to do. PyTorch leaves the key without a kernel up to 2.15. From 2.14 on its own FakeTensors
// in C++ carry it (torch_version/fake_tensors.h); once a fallback for them lies there, kernels for each operator on the
// key, which win over a fallback, are the way on.
#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace saker::aten {

inline constexpr c10::DispatchKey kTraceKey = c10::DispatchKey::Fake;
inline constexpr c10::DispatchKeySet kTraceKeys{kTraceKey};
// Above autograd and functorch: an operator arrives here as it was called, before a composite kernel takes it apart.
// No tensor carries this key; it is switched on for a thread, and PyTorch itself leaves it to tests.
inline constexpr c10::DispatchKey kCallKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
inline constexpr c10::DispatchKeySet kRecordingKeys = kTraceKeys | c10::DispatchKeySet(kCallKey);
inline constexpr c10::DispatchKeySet kBelowCall{c10::DispatchKeySet::FULL_AFTER, kCallKey};
inline constexpr c10::DispatchKeySet kBelowTrace{c10::DispatchKeySet::FULL_AFTER, kTraceKey};

// Kernels make conjugate and negated views inside, and rely on these being resolved for the operators that they call.
inline constexpr c10::DispatchKeySet kResolving{c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                                                c10::DispatchKey::ZeroTensor};

// While one lives, operators called on this thread run for real: not recorded, and not seen again by what lies above
// the key (autograd, autocast, functorch, modes), which saw them when they were recorded.
class RunForReal {
 public:
  RunForReal() : exclude_(c10::DispatchKeySet(c10::DispatchKeySet::FULL) - kBelowTrace - kResolving) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard exclude_;
};

// The same, but what is called inside of a trace is recorded there.
class BelowAutograd {
 public:
  BelowAutograd()
      : exclude_(c10::DispatchKeySet(c10::DispatchKeySet::FULL) - kBelowTrace - kResolving - kRecordingKeys) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard exclude_;
};

// Sends every operator called on this thread to the fallback, those without tensor arguments too.
inline void setRecordingOnThisThread(bool on) {
  c10::impl::tls_set_dispatch_key_included(kTraceKey, on);
  c10::impl::tls_set_dispatch_key_included(kCallKey, on);
}

}  // namespace saker::aten

// Registers the fallback; once in a process. `torch/library.h` must be included.
#define SAKER_TRACE_FALLBACK(function) \
  TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&function>()); }

// The same on the key where operators arrive as they were called.
#define SAKER_CALL_FALLBACK(function)                                         \
  TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {                  \
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&function>()); \
  }

// A kernel for one operator in place of the fallback.
#define SAKER_TRACE_KERNEL(space, name, function)                               \
  TORCH_LIBRARY_IMPL(space, Fake, library) {                                    \
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&function>()); \
  }
