#include "capture/call.h"

#include <algorithm>

#include "aten/trace_key.h"

namespace saker::tracing {

namespace {

bool isTensorKind(const c10::Argument& result) {
  c10::TypeKind kind = result.type()->kind();
  return kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType;
}

}  // namespace

std::string nameOf(const c10::OperatorHandle& op) {
  const c10::OperatorName& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

bool returnsTensors(const c10::FunctionSchema& schema) {
  const std::vector<c10::Argument>& returns = schema.returns();
  return !returns.empty() && std::all_of(returns.begin(), returns.end(), isTensorKind);
}

bool isMarker(const Call& call) { return call.op.operator_name().name.starts_with("profiler::"); }

bool isQuery(const Call& call, const Entry* entry) {
  if (!entry || entry->op->has(ops::kDataDependent) || entry->op->writes) return false;
  const std::vector<c10::Argument>& returns = call.op.schema().returns();
  return !returns.empty() && std::none_of(returns.begin(), returns.end(), isTensorKind);
}

bool isTakenApart(const Call& call, const Entry* entry) {
  if (entry && !entry->op->has(ops::kMayAlias)) return false;
  return call.op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

bool hasSubclass(const Call& call) {
  bool found = false;
  eachTensor(call.values, [&](const at::Tensor& tensor) {
    found |= tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
  });
  return found;
}

void runBelow(const Call& call) {
  c10::impl::ForceDispatchKeyGuard seen(call.surroundings.included_ - aten::kRecordingKeys,
                                        call.surroundings.excluded_ | aten::kRecordingKeys);
  call.op.redispatchBoxed(call.keys & aten::kBelowTrace, call.stack);
}

}  // namespace saker::tracing
