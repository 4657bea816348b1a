#include "aten/meta_fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/jit_type.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>

#include "aten/enums.h"
#include "aten/symbolic_tensor.h"

namespace saker::aten {

namespace {

[[noreturn]] void unsupported(std::string message) {
  throw ops::RefusalException{{ops::Reason::Unsupported, std::move(message)}};
}

// Meta tensors for real ones. Tensors that share storage share it here too: kernels ask whether arguments overlap.
class MetaArguments {
 public:
  c10::IValue convert(const c10::IValue& value) {
    if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(tensor(value.toTensor())) : value;
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const c10::IValue& element : value.toListRef()) list.push_back(convert(element).toTensor());
      return list;
    }
    if (value.isList()) {
      c10::ArrayRef<c10::IValue> elements = value.toListRef();
      c10::impl::GenericList list(value.toList().elementType());
      for (const c10::IValue& element : elements) list.push_back(convert(element));
      return list;
    }
    return value;
  }

  // Where a result of the kernel is in truth.
  c10::Device deviceOf(const at::Tensor& result) const {
    for (const auto& [meta, real] : tensors_) {
      if (meta.is_same(result)) return real.device();
    }
    return result.device().is_meta() ? device_.value_or(c10::Device(c10::kCPU)) : result.device();
  }

  // What `device` says, else the device of the tensors (a 0-d CPU tensor goes along with any other).
  void setDevice(c10::Device device) {
    device_ = fromDevice(resolveDevice(device));
    deviceGiven_ = true;
  }
  bool empty() const { return tensors_.empty(); }
  bool symbolic() const { return symbolic_; }  // are there sizes that are no numbers?

 private:
  at::Tensor tensor(const at::Tensor& real) {
    const c10::TensorImpl* impl = real.unsafeGetTensorImpl();
    noteDevice(real);
    // A Python number: kernels read its value from the CPU.
    if (impl->is_wrapped_number() && real.device().is_cpu()) {
      tensors_.emplace_back(real, real);
      return real;
    }
    for (const auto& [meta, known] : tensors_) {
      if (known.is_same(real)) return meta;
    }
    if (real.layout() != c10::kStrided || c10::isQIntType(real.scalar_type())) {
      unsupported("the meta kernel is only asked about strided tensors");
    }
    if (impl->has_symbolic_sizes_strides()) {
      symbolic_ = true;
      at::Tensor meta = symbolicTensor(real.sym_sizes(), real.sym_strides(), real.sym_storage_offset(),
                                       real.scalar_type(), c10::Device(c10::kMeta));
      tensors_.emplace_back(meta, real);
      return meta;
    }
    at::Tensor meta = at::detail::make_tensor<c10::TensorImpl>(
        storage(real), c10::DispatchKeySet(c10::DispatchKey::Meta), real.dtype());
    meta.unsafeGetTensorImpl()->set_sizes_and_strides(real.sizes(), real.strides(), real.storage_offset());
    if (real.is_conj()) meta._set_conj(true);
    if (real.is_neg()) meta._set_neg(true);
    if (impl->is_wrapped_number()) meta.unsafeGetTensorImpl()->set_wrapped_number(true);
    tensors_.emplace_back(meta, real);
    return meta;
  }

  c10::Storage storage(const at::Tensor& real) {
    if (!real.has_storage()) unsupported("the meta kernel is only asked about tensors with storage");
    const c10::StorageImpl* impl = real.storage().unsafeGetStorageImpl();
    for (const auto& [known, meta] : storages_) {
      if (known == impl) return meta;
    }
    c10::Storage meta(c10::Storage::use_byte_size_t(), impl->nbytes(), c10::DataPtr(nullptr, c10::Device(c10::kMeta)),
                      c10::GetAllocator(c10::kMeta), /*resizable=*/true);
    storages_.emplace_back(impl, meta);
    return meta;
  }

  void noteDevice(const at::Tensor& real) {
    if (deviceGiven_) return;
    bool goesAlong = real.dim() == 0 && real.device().is_cpu();
    if (!device_ || (!goesAlong && !fixed_)) device_ = real.device();
    fixed_ = fixed_ || !goesAlong;
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;  // meta, real
  std::vector<std::pair<const c10::StorageImpl*, c10::Storage>> storages_;
  std::optional<c10::Device> device_;
  bool deviceGiven_ = false;
  bool symbolic_ = false;
  bool fixed_ = false;
};

bool isKind(const c10::Argument& argument, c10::TypeKind kind) {
  const c10::Type* type = argument.real_type().get();
  if (type->kind() == c10::TypeKind::OptionalType) {
    return type->expectRef<c10::OptionalType>().getElementType()->kind() == kind;
  }
  return type->kind() == kind;
}

torch::jit::Stack metaStack(MetaArguments& arguments, const c10::FunctionSchema& schema,
                            std::span<const c10::IValue> values) {
  torch::jit::Stack stack;
  stack.reserve(values.size());
  std::vector<size_t> devices;
  for (size_t i = 0; i < values.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (isKind(argument, c10::TypeKind::DeviceObjType)) {
      devices.push_back(i);
      stack.push_back(values[i]);
    } else if (isKind(argument, c10::TypeKind::GeneratorType) || argument.name() == "pin_memory") {
      stack.emplace_back();  // neither exists on the meta device
    } else {
      stack.push_back(arguments.convert(values[i]));
    }
  }
  for (size_t i : devices) {
    if (!stack[i].isNone()) arguments.setDevice(stack[i].toDevice());
    if (!stack[i].isNone() || arguments.empty()) stack[i] = c10::Device(c10::kMeta);
  }
  return stack;
}

const ir::Type* plainType(ir::TypeTable& types, const c10::IValue& value) {
  if (value.isNone()) return types.plain(ir::TypeKind::None);
  if (value.isBool()) return types.plain(ir::TypeKind::Bool);
  if (value.isInt()) return types.plain(ir::TypeKind::Int);
  if (value.isDouble()) return types.plain(ir::TypeKind::Float);
  if (value.isComplexDouble()) return types.plain(ir::TypeKind::Complex);
  if (value.isString()) return types.plain(ir::TypeKind::String);
  unsupported("the operator returns a value of type " + value.tagKind());
}

}  // namespace

ops::Inferred inferByMetaKernel(Converter& converter, ir::Context& context, const c10::OperatorHandle& handle,
                                std::span<const c10::IValue> values, const Hooks& hooks) {
  MetaArguments arguments;
  torch::jit::Stack stack = metaStack(arguments, handle.schema(), values);
  ops::Inferred inferred;
  try {
    at::AutoDispatchBelowADInplaceOrView noAutograd;
    c10::impl::ExcludeDispatchKeyGuard noAutocast(c10::autocast_dispatch_keyset);
    c10::impl::ExcludeDispatchKeyGuard noModes(c10::python_ks);
    handle.callBoxed(&stack);
  } catch (const c10::NotImplementedError& error) {
    inferred.refusal = {ops::Reason::Unsupported, error.what_without_backtrace()};
    return inferred;
  } catch (const std::exception& error) {
    std::string text = hooks.errorText(error);
    inferred.refusal = {ops::Reason::BadArgument, text};
    if (arguments.symbolic()) {
      inferred.refusal = {ops::Reason::Unsupported, "its meta kernel cannot do with sizes that are symbols: " + text};
    }
    return inferred;
  }
  auto add = [&](const c10::IValue& result) {
    if (result.isTensor() && result.toTensor().defined()) {
      const at::Tensor& tensor = result.toTensor();
      ir::TensorSpec spec(*converter.tensor(tensor));
      spec.device = toDevice(arguments.deviceOf(tensor));
      inferred.results.push_back(context.types().tensor(spec));
    } else {
      inferred.results.push_back(plainType(context.types(), result.isTensor() ? c10::IValue() : result));
    }
  };
  for (const c10::IValue& result : stack) {
    if (result.isTensorList()) {
      for (const c10::IValue& element : result.toListRef()) add(element);
    } else {
      add(result);
    }
  }
  return inferred;
}

}  // namespace saker::aten
