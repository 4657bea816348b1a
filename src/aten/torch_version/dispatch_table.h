// What the dispatcher's table has for an operator on ordinary tensors of the CPU. PyTorch tells it in copies that are
// made with a lock; the table itself is private in all versions, and stays where it is while the operator lives.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace saker::aten {

const c10::impl::OperatorEntry& entryOf(const c10::OperatorHandle& handle);

// The arguments of an explicit instantiation may name private members.
template <auto pointer>
struct ReachEntry {
  friend const c10::impl::OperatorEntry& entryOf(const c10::OperatorHandle& handle) { return (handle.*pointer)->op; }
};
template struct ReachEntry<&c10::OperatorHandle::operatorDef_>;

inline const c10::KernelFunction& cpuKernelOf(const c10::OperatorHandle& handle) {
  return entryOf(handle).lookup(c10::DispatchKeySet(c10::DispatchKey::CPU));
}

}  // namespace saker::aten
