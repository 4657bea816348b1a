// A boxed call: an operator, and its arguments on the stack.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <span>

namespace saker::tracing {

template <typename Visit>
void eachTensor(std::span<const c10::IValue> values, Visit visit) {
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) visit(value.toTensor());
    } else if (value.isList() && !value.isIntList()) {
      for (const c10::IValue& item : value.toListRef()) {
        if (item.isTensor() && item.toTensor().defined()) visit(item.toTensor());
      }
    }
  }
}

struct Call {
  const c10::OperatorHandle& op;
  torch::jit::Stack* stack;
  c10::DispatchKeySet keys;  // as the dispatcher computed them; empty for calls that the trace itself makes
  c10::impl::LocalDispatchKeySet surroundings;  // of the thread when the call arrived
  std::span<c10::IValue> values;                // the arguments, in place
  // Does eager's kernel change version counters itself? On the CPU, operators on lists call others for each tensor,
  // which do; for all other operators it is done above, by autograd.
  bool bumpsInside;

  Call(const c10::OperatorHandle& handle, c10::DispatchKeySet dispatched, torch::jit::Stack* onStack)
      : op(handle),
        stack(onStack),
        keys(dispatched),
        surroundings(c10::impl::tls_local_dispatch_key_set()),
        values(onStack->data() + onStack->size() - handle.schema().arguments().size(),
               handle.schema().arguments().size()),
        bumpsInside(handle.operator_name().name.starts_with("aten::_foreach_") &&
                    !c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::ADInplaceOrView)) {}

  void replaceWith(torch::jit::Stack results) const {
    stack->erase(stack->end() - static_cast<std::ptrdiff_t>(values.size()), stack->end());
    for (c10::IValue& value : results) stack->push_back(std::move(value));
  }
};

}  // namespace saker::tracing
