#include "aten/convert.h"

#include <ATen/core/Generator.h>
#include <ATen/core/jit_type.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "aten/enums.h"

namespace saker::aten {

namespace {

IntMeaning intMeaning(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType:
      return intMeaning(*type.expectRef<c10::OptionalType>().getElementType());
    case c10::TypeKind::ScalarTypeType:
      return IntMeaning::DType;
    case c10::TypeKind::LayoutType:
      return IntMeaning::Layout;
    case c10::TypeKind::MemoryFormatType:
      return IntMeaning::MemoryFormat;
    default:
      return IntMeaning::Number;
  }
}

ir::Arg integerArg(int64_t value, IntMeaning meaning) {
  switch (meaning) {
    case IntMeaning::DType:
      return ir::Arg::dtype(static_cast<ir::DType>(value));
    case IntMeaning::Layout:
      return ir::Arg::layout(static_cast<ir::Layout>(value));
    case IntMeaning::MemoryFormat:
      return ir::Arg::memoryFormat(static_cast<ir::MemoryFormat>(value));
    case IntMeaning::Number:
      break;
  }
  return ir::Arg::integer(value);
}

ir::TensorFlags flagsOf(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  ir::TensorFlags flags;
  flags.requiresGrad = tensor.requires_grad();
  flags.wrappedNumber = impl->is_wrapped_number();
  flags.conj = tensor.is_conj();
  flags.neg = tensor.is_neg();
  return flags;
}

SharedContext contextOf(const c10::SymInt& value) {
  const SymNode* node = ourNode(value);
  return node ? node->context() : nullptr;
}

SharedContext contextOf(const c10::SymNodeImpl* node, Unwrap unwrap) {
  const auto* ours = dynamic_cast<const SymNode*>(node);
  if (!ours) ours = unwrap(*node);
  return ours ? ours->context() : nullptr;
}

SharedContext contextOf(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return nullptr;
  for (const c10::SymInt& size : tensor.sym_sizes()) {
    if (SharedContext found = contextOf(size)) return found;
  }
  for (const c10::SymInt& stride : tensor.sym_strides()) {
    if (SharedContext found = contextOf(stride)) return found;
  }
  return contextOf(tensor.sym_storage_offset());
}

}  // namespace

std::vector<IntMeaning> intMeanings(const c10::FunctionSchema& schema) {
  std::vector<IntMeaning> meanings;
  for (const c10::Argument& argument : schema.arguments()) meanings.push_back(intMeaning(*argument.real_type()));
  return meanings;
}

std::span<const ir::Arg> Converter::arguments(std::span<const IntMeaning> meanings,
                                              std::span<const c10::IValue> values) {
  SAKER_CHECK(meanings.size() == values.size(), "a call has as many values as its schema has arguments");
  ir::Arg* args = arena_.makeArray<ir::Arg>(values.size());
  for (size_t i = 0; i < values.size(); ++i) args[i] = argument(values[i], meanings[i]);
  return {args, values.size()};
}

ir::Arg Converter::argument(const c10::IValue& value, IntMeaning meaning) {
  if (value.isTensor()) {
    const at::Tensor& t = value.toTensor();
    return t.defined() ? tensorArg(t) : ir::Arg::none();
  }
  if (value.isInt()) return integerArg(value.toInt(), meaning);
  if (value.isNone()) return ir::Arg::none();
  if (value.isBool()) return ir::Arg::boolean(value.toBool());
  if (value.isDouble()) return ir::Arg::number(value.toDouble());
  if (value.isList()) {
    c10::ArrayRef<c10::IValue> elements = value.toListRef();
    ir::Arg* args = arena_.makeArray<ir::Arg>(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) args[i] = argument(elements[i], meaning);
    return ir::Arg::list({args, elements.size()});
  }
  if (value.isSymInt()) return ir::Arg::symInt(integer(value.toSymInt()));
  if (value.isSymFloat()) {
    return ir::Arg::symFloat(sym::Float(symbol(value.toSymFloat().toSymNodeImplUnowned())));
  }
  if (value.isSymBool()) {
    return ir::Arg::symBool(sym::Bool(symbol(value.toSymBool().toSymNodeImplUnowned())));
  }
  if (value.isComplexDouble()) {
    c10::complex<double> number = value.toComplexDouble();
    return ir::Arg::complex(arena_.make<std::complex<double>>(number.real(), number.imag()));
  }
  if (value.isString()) return ir::Arg::string(arena_.copy(value.toStringView()));
  if (value.isDevice()) return ir::Arg::device(resolveDevice(value.toDevice()));
  if (value.isGenerator()) return opaqueArg("Generator", value);
  if (value.isStorage()) return opaqueArg("Storage", value);
  if (value.isStream()) return opaqueArg("Stream", value);
  if (value.isObject()) return opaqueArg("Object", value);
  throw ops::RefusalException{{ops::Reason::Unsupported, "no counterpart of an argument of type " + value.tagKind()}};
}

ir::TensorSpec Converter::spec(const at::Tensor& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  ir::TensorSpec spec;
  spec.dtype = toDType(tensor.scalar_type());
  spec.layout = toLayout(tensor.layout());
  spec.device = toDevice(tensor.device());
  spec.flags = flagsOf(tensor);
  bool strided = spec.layout == ir::Layout::Strided;
  if (impl->has_symbolic_sizes_strides()) {
    for (const c10::SymInt& size : tensor.sym_sizes()) spec.sizes.push_back(integer(size));
    if (strided) {
      for (const c10::SymInt& stride : tensor.sym_strides()) spec.strides.push_back(integer(stride));
      spec.offset = integer(tensor.sym_storage_offset());
    }
  } else {
    for (int64_t size : tensor.sizes()) spec.sizes.push_back(size);
    if (strided) {
      for (int64_t stride : tensor.strides()) spec.strides.push_back(stride);
      spec.offset = tensor.storage_offset();
    }
  }
  // Sparse tensors have no strides; the type keeps zeros in their place.
  if (!strided) spec.strides.resize(spec.sizes.size());
  return spec;
}

static bool sameInts(std::span<const sym::Int> known, c10::IntArrayRef found) {
  if (known.size() != found.size()) return false;
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i].constant() != found[i]) return false;
  }
  return true;
}

bool surelyHasType(const at::Tensor& tensor, const ir::TensorType& type) {
  if (tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() || type.symbolic) return false;
  if (type.layout != ir::Layout::Strided || tensor.layout() != c10::kStrided) return false;
  ir::TensorFlags flags;
  flags.conj = tensor.is_conj();
  flags.neg = tensor.is_neg();
  return type.flags == flags && type.dtype == toDType(tensor.scalar_type()) &&
         type.device == toDevice(tensor.device()) && sameInts(type.sizes(), tensor.sizes()) &&
         sameInts(type.strides(), tensor.strides()) && type.offset.constant() == tensor.storage_offset();
}

sym::Int Converter::integer(const c10::SymInt& value) {
  if (!value.is_heap_allocated()) return value.as_int_unchecked();
  if (std::optional<int64_t> number = value.maybe_as_int()) return *number;
  return sym::Int(symbol(value.toSymNodeImplUnowned()));
}

const sym::Node* Converter::symbol(const c10::SymNodeImpl* node) {
  const auto* ours = dynamic_cast<const SymNode*>(node);
  if (!ours) ours = unwrap_(*node);
  if (!ours) throw ops::RefusalException{{ops::Reason::Unsupported, "a symbol that is not Saker's"}};
  if (ours->context().get() != &context_) {
    throw ops::RefusalException{{ops::Reason::Unsupported, "symbols of different spaces meet"}};
  }
  return ours->node();
}

ir::Arg Converter::opaqueArg(std::string_view className, const c10::IValue& object) {
  const void* address = object.isPtrType() ? object.internalToPointer() : nullptr;
  return ir::Arg::opaque(arena_.make<ir::OpaqueRef>(className, reinterpret_cast<uint64_t>(address)));
}

ir::Device resolveDevice(c10::Device device) {
  if (!device.has_index() && !device.is_cpu() && !device.is_meta() && c10::impl::hasDeviceGuardImpl(device.type())) {
    device = c10::impl::VirtualGuardImpl(device.type()).getDevice();
  }
  return toDevice(device);
}

SharedContext contextOf(std::span<const c10::IValue> values, Unwrap unwrap) {
  for (const c10::IValue& value : values) {
    SharedContext found;
    if (value.isTensor()) {
      found = contextOf(value.toTensor());
    } else if (value.isSymInt()) {
      found = contextOf(value.toSymInt());
    } else if (value.isSymFloat()) {
      found = contextOf(value.toSymFloat().toSymNodeImplUnowned(), unwrap);
    } else if (value.isSymBool()) {
      found = contextOf(value.toSymBool().toSymNodeImplUnowned(), unwrap);
    } else if (value.isList()) {
      c10::ArrayRef<c10::IValue> elements = value.toListRef();
      found = contextOf(std::span(elements.data(), elements.size()), unwrap);
    }
    if (found) return found;
  }
  return nullptr;
}

}  // namespace saker::aten
