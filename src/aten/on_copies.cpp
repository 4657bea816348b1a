#include "aten/on_copies.h"

#include <ATen/core/jit_type.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <deque>
#include <mutex>
#include <unordered_map>

namespace saker::aten {

namespace {

constexpr const char* kNamespace = "saker_on_copies";

thread_local WriteMeter* meterOfThread = nullptr;

// With the strides it has, as kernels ask for them.
at::Tensor copyOf(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).copy_(tensor);
}

uint32_t versionOf(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<uint32_t>(tensor._version());
}

// The thread as the operator finds it in eager mode: which of autograd's kernels keep version counters, and what they
// keep from the kernels below, differs between versions of PyTorch.
c10::impl::LocalDispatchKeySet asInEagerMode() {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  keys.excluded_ = keys.excluded_ - c10::autograd_dispatch_keyset_with_ADInplaceOrView;
  return keys;
}

}  // namespace

WriteMeter::WriteMeter() : around_(meterOfThread) { meterOfThread = this; }
WriteMeter::~WriteMeter() { meterOfThread = around_; }

bool isWritten(const c10::Argument& argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

// The kernel: composite, so that autograd sees the copies and the user's operator where it is on.
class OnCopies final : public c10::OperatorKernel {
 public:
  explicit OnCopies(c10::OperatorName name) : name_(std::move(name)) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    // Looked up each time: the user may have taken it back.
    c10::OperatorHandle op =
        c10::Dispatcher::singleton().findSchemaOrThrow(name_.name.c_str(), name_.overload_name.c_str());
    const std::vector<c10::Argument>& formals = op.schema().arguments();
    torch::jit::Stack call(stack->end() - static_cast<std::ptrdiff_t>(formals.size()), stack->end());
    stack->resize(stack->size() - formals.size());
    std::vector<at::Tensor> copies;
    for (size_t i = 0; i < formals.size(); ++i) {
      if (isWritten(formals[i])) call[i] = copied(call[i], copies);
    }
    std::vector<uint32_t> before;
    for (const at::Tensor& copy : copies) before.push_back(versionOf(copy));
    WriteMeter* meter = meterOfThread;
    {
      WriteMeter inner;  // what the kernel calls is not the program's
      bool below = c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradCPU);
      c10::AutoGradMode followed(c10::GradMode::is_enabled() && !below);
      c10::impl::LocalDispatchKeySet keys = asInEagerMode();
      c10::impl::ForceDispatchKeyGuard guard(keys.included_, keys.excluded_);
      op.callBoxed(&call);
    }
    if (meter) {
      std::vector<uint32_t>& moved = meter->calls_.emplace_back();
      for (size_t i = 0; i < copies.size(); ++i) moved.push_back(versionOf(copies[i]) - before[i]);
    }
    c10::List<at::Tensor> given;
    for (size_t i = 0; i < call.size(); ++i) {
      if (op.schema().returns()[i].alias_info()) continue;  // one of the copies
      if (call[i].isTensorList()) {
        for (const c10::IValue& item : call[i].toListRef()) given.push_back(item.toTensor());
      } else {
        given.push_back(call[i].toTensor());
      }
    }
    for (at::Tensor& copy : copies) given.push_back(std::move(copy));
    stack->emplace_back(std::move(given));
  }

 private:
  static c10::IValue copied(const c10::IValue& value, std::vector<at::Tensor>& copies) {
    if (value.isTensor()) {
      if (!value.toTensor().defined()) return value;
      copies.push_back(copyOf(value.toTensor()));
      return copies.back();
    }
    if (!value.isList()) return value;
    c10::impl::GenericList list(value.toList().elementType());
    for (const c10::IValue& item : value.toListRef()) list.push_back(copied(item, copies));
    return list;
  }

  c10::OperatorName name_;
};

namespace {

// Registered for good: graphs refer to them by name. A name that came to mean another operator gets another one.
class Registry {
 public:
  c10::OperatorHandle find(const c10::OperatorHandle& op) {
    std::string key = toString(op.schema());
    std::lock_guard held(lock_);
    auto known = names_.find(key);
    if (known == names_.end()) known = names_.emplace(key, add(op)).first;
    return c10::Dispatcher::singleton().findSchemaOrThrow(known->second.name.c_str(), "");
  }

 private:
  c10::OperatorName add(const c10::OperatorHandle& op) {
    c10::OperatorName name = nameFor(op.operator_name());
    std::vector<c10::Argument> arguments;
    for (const c10::Argument& formal : op.schema().arguments()) {
      arguments.emplace_back(formal.name(), formal.type(), formal.real_type(), formal.N(), formal.default_value(),
                             formal.kwarg_only());
    }
    std::vector<c10::Argument> returns{c10::Argument("", c10::ListType::ofTensors())};
    torch::Library& library =
        libraries_.emplace_back(torch::Library::FRAGMENT, kNamespace, std::nullopt, __FILE__, __LINE__);
    library.def(c10::FunctionSchema(name.name, "", std::move(arguments), std::move(returns)));
    library.impl(name.name.c_str(), torch::CppFunction::makeFromBoxedKernel(c10::BoxedKernel::makeFromFunctor(
                                        std::make_unique<OnCopies>(op.operator_name()))));
    return name;
  }

  static c10::OperatorName nameFor(const c10::OperatorName& of) {
    std::string text = std::string(kNamespace) + "::" + of.name.substr(0, of.name.find("::")) + "__" +
                       of.name.substr(of.name.find("::") + 2);
    if (!of.overload_name.empty()) text += "__" + of.overload_name;
    c10::OperatorName name(text, "");
    for (int i = 2; c10::Dispatcher::singleton().findSchema(name); ++i) name.name = text + "_" + std::to_string(i);
    return name;
  }

  std::mutex lock_;
  std::unordered_map<std::string, c10::OperatorName> names_;  // by the schema of the user's operator
  std::deque<torch::Library> libraries_;
};

}  // namespace

c10::OperatorHandle onCopies(const c10::OperatorHandle& op) {
  static Registry* registry = new Registry;  // never destroyed: the dispatcher may be gone before
  return registry->find(op);
}

bool isOnCopies(std::string_view qualified) {
  return qualified.starts_with(kNamespace) && qualified.substr(std::string_view(kNamespace).size()).starts_with("::");
}

}  // namespace saker::aten
