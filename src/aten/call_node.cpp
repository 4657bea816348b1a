#include "aten/call_node.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>

#include <stdexcept>

#include "aten/enums.h"

namespace saker::aten {

using ir::Arg;

std::optional<c10::OperatorHandle> findOperator(const std::string& qualified) {
  // The overload follows the first dot after the namespace.
  size_t dot = qualified.find('.', qualified.find("::") + 2);
  return c10::Dispatcher::singleton().findSchema(
      {qualified.substr(0, dot), dot == std::string::npos ? "" : qualified.substr(dot + 1)});
}

const c10::OperatorHandle& Handles::find(const ir::OpDef* op) {
  auto known = handles_.find(op);
  if (known != handles_.end()) return known->second;
  std::optional<c10::OperatorHandle> handle = findOperator(op->qualified);
  if (!handle) throw std::runtime_error("no operator " + op->qualified + " in this PyTorch");
  return handles_.emplace(op, *handle).first->second;
}

at::Tensor wrappedNumber(const Arg& number) {
  c10::Scalar scalar;
  switch (number.kind()) {
    case Arg::Kind::Bool:
      scalar = number.toBool();
      break;
    case Arg::Kind::Int:
      scalar = number.toInt();
      break;
    case Arg::Kind::Float:
      scalar = number.toFloat();
      break;
    default: {
      std::complex<double> value = number.toComplex();
      scalar = c10::complex<double>(value.real(), value.imag());
    }
  }
  at::Tensor tensor = c10::scalar_to_tensor(scalar);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

void failWithoutValue(const sym::Node* node) {
  throw std::runtime_error("the expression " + sym::toString(node) + " has no value here");
}

c10::IValue evaluate(const sym::Node* node, const sym::Assignment& symbols) {
  auto given = [&](auto value) -> c10::IValue {
    if (!value) failWithoutValue(node);
    return *value;
  };
  if (node->isInt()) return given(sym::evaluateInt(node, symbols));
  return node->isBool() ? given(sym::evaluateBool(node, symbols)) : given(sym::evaluateFloat(node, symbols));
}

c10::IValue constantArgument(const Arg& arg, CallEnvironment& environment) {
  switch (arg.kind()) {
    case Arg::Kind::None:
    case Arg::Kind::Type:
      return {};
    case Arg::Kind::Bool:
      return arg.toBool();
    case Arg::Kind::Int:
      return arg.toInt();
    case Arg::Kind::Float:
      return arg.toFloat();
    case Arg::Kind::Complex: {
      std::complex<double> value = arg.toComplex();
      return c10::complex<double>(value.real(), value.imag());
    }
    case Arg::Kind::String:
      return std::string(arg.toString());
    case Arg::Kind::DType:
      return static_cast<int64_t>(fromDType(arg.toDType()));
    case Arg::Kind::Device:
      return fromDevice(arg.toDevice());
    case Arg::Kind::Layout:
      return static_cast<int64_t>(arg.toLayout());
    case Arg::Kind::MemoryFormat:
      return static_cast<int64_t>(arg.toMemoryFormat());
    case Arg::Kind::SymInt:
    case Arg::Kind::SymBool:
    case Arg::Kind::SymFloat:
      return environment.expression(arg.toSym());
    case Arg::Kind::Opaque:
      return environment.opaque(*arg.toOpaque());
    case Arg::Kind::Value:
      if (arg.toValue()->tensor()) return environment.tensor(arg.toValue());
      return environment.number(arg.toValue());
    case Arg::Kind::List:
      break;
  }
  throw std::runtime_error("a list stands where one value is taken");
}

at::Tensor CallEnvironment::numberTensor(const c10::IValue& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number.toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

namespace {

at::Tensor tensorOrWrapped(const Arg& arg, CallEnvironment& environment) {
  if (arg.isValue()) return environment.tensor(arg.toValue());
  if (arg.isNone()) return {};
  if (arg.kind() != Arg::Kind::SymInt && arg.kind() != Arg::Kind::SymFloat && arg.kind() != Arg::Kind::SymBool) {
    return wrappedNumber(arg);
  }
  return environment.numberTensor(constantArgument(arg, environment));
}

template <typename T, typename Convert>
c10::IValue typedList(std::span<const Arg> items, Convert convert) {
  c10::List<T> out;
  out.reserve(items.size());
  for (const Arg& item : items) out.push_back(convert(item));
  return out;
}

// Numbers may be symbols of a trace that goes on. Where the operator takes none, they are decided.
c10::IValue decided(c10::IValue value) {
  if (value.isSymInt()) return value.toSymInt().guard_int(__FILE__, __LINE__);
  if (value.isSymFloat()) return value.toSymFloat().guard_float(__FILE__, __LINE__);
  if (value.isSymBool()) return value.toSymBool().guard_bool(__FILE__, __LINE__);
  return value;
}

c10::IValue integers(std::span<const Arg> items, bool mayBeSymbolic, CallEnvironment& environment) {
  std::vector<c10::SymInt> values;
  bool symbolic = false;
  for (const Arg& item : items) {
    c10::IValue value = constantArgument(item, environment);
    if (!mayBeSymbolic) value = decided(std::move(value));
    symbolic |= value.isSymInt();
    values.push_back(value.isSymInt() ? value.toSymInt() : c10::SymInt(value.toInt()));
  }
  if (symbolic) return c10::IValue(c10::SymIntArrayRef(values));
  c10::List<int64_t> out;
  out.reserve(values.size());
  for (const c10::SymInt& value : values) out.push_back(value.expect_int());
  return out;
}

c10::IValue list(std::span<const Arg> items, const c10::TypePtr& element, CallEnvironment& environment) {
  switch (element->kind()) {
    case c10::TypeKind::TensorType:
      return typedList<at::Tensor>(items, [&](const Arg& item) { return tensorOrWrapped(item, environment); });
    case c10::TypeKind::OptionalType:
      return typedList<std::optional<at::Tensor>>(items, [&](const Arg& item) {
        return item.isNone() ? std::nullopt : std::optional(tensorOrWrapped(item, environment));
      });
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return integers(items, element->kind() == c10::TypeKind::SymIntType, environment);
    case c10::TypeKind::FloatType:
      return typedList<double>(
          items, [&](const Arg& item) { return decided(constantArgument(item, environment)).toScalar().toDouble(); });
    case c10::TypeKind::BoolType:
      return typedList<bool>(items,
                             [&](const Arg& item) { return decided(constantArgument(item, environment)).toBool(); });
    default: {
      c10::impl::GenericList out(element);
      for (const Arg& item : items) out.push_back(constantArgument(item, environment));
      return out;
    }
  }
}

c10::IValue convert(const Arg& arg, const c10::Type& type, CallEnvironment& environment) {
  if (type.kind() == c10::TypeKind::OptionalType) {
    if (arg.isNone()) return {};
    return convert(arg, *type.expectRef<c10::OptionalType>().getElementType(), environment);
  }
  if (type.kind() == c10::TypeKind::TensorType) return tensorOrWrapped(arg, environment);
  if (type.kind() == c10::TypeKind::ListType) {
    c10::TypePtr element = type.expectRef<c10::ListType>().getElementType();
    if (arg.isList()) return list(arg.toList(), element, environment);
    return list(std::span<const Arg>(&arg, 1), element, environment);  // a single number for int[2]
  }
  c10::IValue value = constantArgument(arg, environment);
  bool plain = type.kind() == c10::TypeKind::IntType || type.kind() == c10::TypeKind::FloatType ||
               type.kind() == c10::TypeKind::BoolType;
  if (plain) value = decided(std::move(value));
  if (type.kind() == c10::TypeKind::FloatType && value.isInt()) return static_cast<double>(value.toInt());
  return value;
}

}  // namespace

c10::IValue argument(const Arg& arg, const c10::Type& type, CallEnvironment& environment) {
  return convert(arg, type, environment);
}

void pushArguments(const ir::Node& node, const c10::FunctionSchema& schema, CallEnvironment& environment,
                   torch::jit::Stack& stack) {
  std::span<const Arg> args = node.args();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    if (i < args.size()) {
      stack.push_back(convert(args[i], *schema.arguments()[i].real_type(), environment));
    } else {
      stack.push_back(schema.arguments()[i].default_value().value_or(c10::IValue()));
    }
  }
}

}  // namespace saker::aten
