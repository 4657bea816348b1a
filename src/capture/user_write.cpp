#include "capture/user_write.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "aten/autocast_state.h"
#include "aten/on_copies.h"
#include "aten/torch_version/version.h"
#include "capture/trace.h"
#include "ops/shape.h"

namespace saker::tracing {

namespace {

[[noreturn]] void refuse(const char* why) { throw ops::RefusalException{{ops::Reason::Unsupported, why}}; }

bool isKind(const c10::Argument& argument, c10::TypeKind kind) { return argument.type()->kind() == kind; }

// Has a kernel above moved the version counters of what is written?
bool isCounted(const Call& call) {
  if (!call.op.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView)) return false;
  if constexpr (aten::kInferenceModeExcludes) {
    return !call.surroundings.excluded_.has(c10::DispatchKey::ADInplaceOrView);
  }
  return !c10::InferenceMode::is_enabled();
}

}  // namespace

bool isUserWrite(const Call& call) {
  const std::vector<c10::Argument>& formals = call.op.schema().arguments();
  return std::any_of(formals.begin(), formals.end(), aten::isWritten);
}

UserWrite userWrite(const Call& call) {
  const c10::FunctionSchema& schema = call.op.schema();
  UserWrite write;
  for (size_t i = 0; i < call.values.size(); ++i) {
    const c10::Argument& formal = schema.arguments()[i];
    if (!formal.alias_info()) continue;
    if (!aten::isWritten(formal))
      refuse("its results are views of its arguments, and the operator table does not know it");
    eachTensor(call.values.subspan(i, 1), [&](const at::Tensor& tensor) { write.targets.push_back(tensor); });
  }
  for (const c10::Argument& result : schema.returns()) {
    bool list = isKind(result, c10::TypeKind::ListType);
    if (!list && !isKind(result, c10::TypeKind::TensorType)) {
      throw ops::RefusalException{{ops::Reason::DataDependent, "its result is no tensor"}};
    }
    if (result.alias_info() && (list || !aten::isWritten(result))) refuse("its results are views of its arguments");
  }
  write.counted = isCounted(call) ? 1 : 0;
  return write;
}

std::optional<std::string> whyNotOnCopies(Trace& trace, const Call& call, const UserWrite& write) {
  std::vector<const c10::StorageImpl*> given;
  eachTensor(call.values, [&](const at::Tensor& tensor) {
    given.push_back(tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr);
  });
  for (const at::Tensor& target : write.targets) {
    if (std::count(given.begin(), given.end(), target.storage().unsafeGetStorageImpl()) > 1) {
      return "what it writes shares memory with another argument";
    }
    const ir::TensorType& type = *trace.valueOf(target)->tensor();
    if (ops::hasInternalOverlap(type)) return "elements of what it writes share addresses";
    if (type.flags.conj || type.flags.neg) return "it writes to a view that conjugates or negates";
  }
  return std::nullopt;
}

std::optional<std::string> whyNotBelowAutograd(const Call& call) {
  std::optional<std::string> why;
  const std::string& name = call.op.operator_name().name;
  if (name.starts_with("aten::") || name.starts_with("saker")) return why;
  bool formula = call.op.hasKernelForDispatchKey(c10::DispatchKey::Autograd) ||
                 call.op.hasKernelForDispatchKey(c10::DispatchKey::AutogradCPU) ||
                 call.op.hasKernelForDispatchKey(c10::DispatchKey::AutogradCUDA) ||
                 call.op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  eachTensor(call.values, [&](const at::Tensor& tensor) {
    if (!formula && c10::GradMode::is_enabled() && tensor.requires_grad()) {
      why = "autograd follows what it does inside, since it has no formula";
    }
    if (!aten::autocast::isAvailable(tensor.device().type())) return;
    c10::DispatchKey cast = aten::autocast::keyOf(tensor.device().type());
    if (!call.surroundings.excluded_.has(cast)) why = "autocast is on while it runs";
  });
  return why;
}

}  // namespace saker::tracing
