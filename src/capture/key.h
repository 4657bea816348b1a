// The one place that knows which dispatch key trace tensors carry and how the fallback is registered on it.
//
// DispatchKey::Fake lies below autograd, autocast and functorch and above every backend, so what arrives here is what a
// backend would be asked to do. PyTorch leaves the key without a kernel up to 2.13; from 2.14 on it puts one there
// itself, and then kernels for each operator on the key, which win over a fallback, are the way on.
#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace saker::capture {

inline constexpr c10::DispatchKey kTraceKey = c10::DispatchKey::Fake;
inline constexpr c10::DispatchKeySet kTraceKeys{kTraceKey};

// While one lives, operators called on this thread run for real: not recorded, and not seen again by what lies above
// the key (autograd, autocast, functorch, modes), which saw them when they were recorded.
class RunForReal {
 public:
  RunForReal()
      : exclude_(c10::DispatchKeySet(c10::DispatchKeySet::FULL) -
                 c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kTraceKey)) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard exclude_;
};

// Every operator called on this thread goes to the fallback, those without tensor arguments too.
void setRecordingOnThisThread(bool on);

}  // namespace saker::capture
