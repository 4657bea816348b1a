#include "ir/text.h"
#include "ir/verifier.h"

namespace saker::ir {
namespace {

using Base = SchemaType::Base;

constexpr uint32_t bit(TypeKind kind) { return 1u << static_cast<unsigned>(kind); }
constexpr uint32_t kAnyNumber =
    bit(TypeKind::Int) | bit(TypeKind::Bool) | bit(TypeKind::Float) | bit(TypeKind::Complex) | bit(TypeKind::Scalar);

struct Accepts {
  std::string_view name;
  uint32_t kinds;  // a set of TypeKind
};

Accepts accepts(Base base) {
  switch (base) {
    case Base::Tensor:
      return {"a tensor", bit(TypeKind::Tensor)};
    case Base::Int:
    case Base::SymInt:
      return {"an int", bit(TypeKind::Int) | bit(TypeKind::Scalar)};
    case Base::Float:
    case Base::SymFloat:
      return {"a float", bit(TypeKind::Float) | bit(TypeKind::Int) | bit(TypeKind::Scalar)};
    case Base::Bool:
    case Base::SymBool:
      return {"a bool", bit(TypeKind::Bool)};
    case Base::Complex:
    case Base::Scalar:
      return {"a number", kAnyNumber};
    case Base::String:
      return {"a string", bit(TypeKind::String)};
    case Base::DType:
      return {"a dtype", bit(TypeKind::DType)};
    case Base::Device:
      return {"a device", bit(TypeKind::Device)};
    case Base::Layout:
      return {"a layout", bit(TypeKind::Layout)};
    case Base::MemoryFormat:
      return {"a memory format", bit(TypeKind::MemoryFormat)};
    case Base::Generator:
    case Base::Stream:
    case Base::Storage:
      return {"an object", bit(TypeKind::Opaque)};
    case Base::Other:
      break;
  }
  return {"anything", ~0u};
}

TypeKind kindOf(const Arg& arg) {
  switch (arg.kind()) {
    case Arg::Kind::None:
      return TypeKind::None;
    case Arg::Kind::Bool:
    case Arg::Kind::SymBool:
      return TypeKind::Bool;
    case Arg::Kind::Int:
    case Arg::Kind::SymInt:
      return TypeKind::Int;
    case Arg::Kind::Float:
    case Arg::Kind::SymFloat:
      return TypeKind::Float;
    case Arg::Kind::Complex:
      return TypeKind::Complex;
    case Arg::Kind::String:
      return TypeKind::String;
    case Arg::Kind::DType:
      return TypeKind::DType;
    case Arg::Kind::Device:
      return TypeKind::Device;
    case Arg::Kind::Layout:
      return TypeKind::Layout;
    case Arg::Kind::MemoryFormat:
      return TypeKind::MemoryFormat;
    case Arg::Kind::Opaque:
      return TypeKind::Opaque;
    case Arg::Kind::List:
      return TypeKind::List;
    case Arg::Kind::Value:
      return arg.toValue()->type()->kind;
    case Arg::Kind::Type:
      return arg.toType()->kind;
  }
  return TypeKind::None;
}

std::string describe(const Arg& arg) {
  switch (arg.kind()) {
    case Arg::Kind::Value:
      return "a value of type " + toString(arg.toValue()->type());
    case Arg::Kind::None:
      return "None";
    case Arg::Kind::Bool:
    case Arg::Kind::SymBool:
      return "a bool";
    case Arg::Kind::Int:
    case Arg::Kind::SymInt:
      return "an int";
    case Arg::Kind::Float:
    case Arg::Kind::SymFloat:
      return "a float";
    case Arg::Kind::Complex:
      return "a complex number";
    case Arg::Kind::String:
      return "a string";
    case Arg::Kind::DType:
      return "a dtype";
    case Arg::Kind::Device:
      return "a device";
    case Arg::Kind::Layout:
      return "a layout";
    case Arg::Kind::MemoryFormat:
      return "a memory format";
    case Arg::Kind::Opaque:
      return "an object";
    case Arg::Kind::List:
      return "a list";
    case Arg::Kind::Type:
      return "a type";
  }
  return "nothing";
}

// Whether a value of this type may be given where `wanted` is, lists and options taken apart.
bool fits(const Type* type, uint32_t wanted, bool list, bool optional) {
  while (type->kind == TypeKind::Optional && optional) type = asContainer(type)->element;
  if (optional && type->kind == TypeKind::None) return true;
  if (list) {
    if (type->kind != TypeKind::List) return false;
    return fits(asContainer(type)->element, wanted, false, true);
  }
  return wanted & bit(type->kind);
}

// PyTorch makes a 0-d tensor of a Python number that stands beside tensors.
bool isWrappedNumber(const SchemaType& expected, const Arg& arg) {
  return expected.base == Base::Tensor && !expected.list && arg.kind() >= Arg::Kind::Bool &&
         arg.kind() <= Arg::Kind::Complex;
}

bool fitsElement(const Arg& arg, uint32_t wanted, bool optional) {
  if (arg.isNone()) return optional || wanted & bit(TypeKind::None);
  if (arg.isValue()) return fits(arg.toValue()->type(), wanted, false, optional);
  return wanted & bit(kindOf(arg));
}

}  // namespace

std::optional<std::string> schemaMismatch(const SchemaType& expected, const Arg& arg) {
  if (expected.base == Base::Other) return std::nullopt;
  Accepts wanted = accepts(expected.base);
  auto refuse = [&](const Arg& found) {
    std::string message = "expected ";
    if (expected.list) message += "a list with elements each ";
    message += wanted.name;
    if (expected.optional) message += " or None";
    return message + ", found " + describe(found);
  };
  if (!expected.list) {
    if (isWrappedNumber(expected, arg)) return std::nullopt;
    if (fitsElement(arg, wanted.kinds, expected.optional)) return std::nullopt;
    return refuse(arg);
  }
  if (arg.isNone() && expected.optional) return std::nullopt;
  if (arg.isValue() && fits(arg.toValue()->type(), wanted.kinds, true, expected.optional)) return std::nullopt;
  if (!arg.isList()) {
    if (expected.fixedSize > 0 && fitsElement(arg, wanted.kinds, expected.elementOptional)) return std::nullopt;
    return refuse(arg);
  }
  for (const Arg& element : arg.toList()) {
    if (!fitsElement(element, wanted.kinds, expected.elementOptional)) return refuse(element);
  }
  return std::nullopt;
}

std::optional<std::string> schemaMismatch(const Schema& schema, const Node& node) {
  if (schema.variadicReturns) return std::nullopt;
  // The results of a list stand flat: with one of them the number is free.
  size_t lists = 0;
  for (const SchemaArgument& result : schema.returns) lists += result.type.list;
  size_t single = schema.returns.size() - lists, count = node.resultCount();
  if (lists ? count < single : count != single) {
    return "expected " + std::string(lists ? "at least " : "") + std::to_string(single) +
           (single == 1 ? " result" : " results") + ", found " + std::to_string(count);
  }
  size_t at = 0;
  for (const SchemaArgument& result : schema.returns) {
    size_t here = result.type.list ? (lists == 1 ? count - single : 0) : 1;
    if (result.type.list && lists > 1) return std::nullopt;  // where one ends is not written
    for (; here > 0; --here, ++at) {
      if (result.type.base == Base::Other) continue;
      Accepts wanted = accepts(result.type.base);
      // An operator may leave a tensor undefined.
      if (!fits(node.result(at)->type(), wanted.kinds, false, true)) {
        return "expected result " + std::to_string(at) + " to be " + std::string(wanted.name) + ", found " +
               toString(node.result(at)->type());
      }
    }
  }
  return std::nullopt;
}

}  // namespace saker::ir
