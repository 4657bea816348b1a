// A boxed call: an operator, and its arguments on the stack. What can be said of it without knowing who records it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <span>
#include <string>

#include "aten/infer.h"
#include "ops/operator.h"

namespace saker::tracing {

using Entry = aten::Inference::Entry;

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

// With each tensor that the operator writes.
template <typename Visit>
void eachWritten(const ops::Operator& op, const Call& call, Visit visit) {
  if (!op.writes) return;
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (op.writesArgument(i)) eachTensor(call.values.subspan(i, 1), visit);
  }
}

// With each tensor whose version counter the call moves, by one: those that the schema says it writes.
template <typename Visit>
void eachCounted(const Call& call, Visit visit) {
  const std::vector<c10::Argument>& formals = call.op.schema().arguments();
  for (size_t i = 0; i < formals.size(); ++i) {
    const c10::AliasInfo* alias = formals[i].alias_info();
    if (alias && alias->isWrite()) eachTensor(call.values.subspan(i, 1), visit);
  }
}

// "aten::add.Tensor"
std::string nameOf(const c10::OperatorHandle& op);
// Are its results tensors and lists of tensors, at least one?
bool returnsTensors(const c10::FunctionSchema& schema);
// An operator of the profiler, which has nothing to do with tensors.
bool isMarker(const Call& call);
// Does it tell something about its arguments that is known without their data?
bool isQuery(const Call& call, const Entry* entry);
// Is it recorded as the operators that its composite kernel calls?
bool isTakenApart(const Call& call, const Entry* entry);
// Is one of its tensors of a class written in Python, which answers operators itself?
bool hasSubclass(const Call& call);
// Operators of the table with one of these are no part of a graph, but for few exceptions.
inline constexpr uint32_t kNeverRecorded = ops::kDataDependent | ops::kEffect | ops::kSetsStorage;

// Runs it below everything that has seen the call, as the dispatcher would have gone on.
void runBelow(const Call& call);

}  // namespace saker::tracing
