#include "ops/infer.h"

#include <utility>

#include "ops/promote.h"
#include "ops/shape.h"

namespace saker::ops {

using ir::Type;
using ir::TypeKind;

std::string_view name(Reason reason) {
  switch (reason) {
#define X(enumerator, text) \
  case Reason::enumerator:  \
    return #enumerator;
    SAKER_REFUSALS(X)
#undef X
  }
  return "";
}

std::string_view meaning(Reason reason) {
  switch (reason) {
#define X(enumerator, text) \
  case Reason::enumerator:  \
    return text;
    SAKER_REFUSALS(X)
#undef X
  }
  return "";
}

void refuse(Reason reason, std::string message) { throw RefusalException{{reason, std::move(message)}}; }
void refuse(std::string message) { refuse(Reason::BadArgument, std::move(message)); }
void unsupported(std::string message) { refuse(Reason::Unsupported, std::move(message)); }

DType Scalar::dtype() const {
  switch (kind) {
    case Kind::Bool:
      return DType::Bool;
    case Kind::Int:
      return DType::Int64;
    case Kind::Float:
      return DType::Float64;
    case Kind::Complex:
      return DType::Complex128;
  }
  return DType::Float64;
}

namespace {

const Type* typeOf(const Arg& arg) {
  if (arg.kind() == Arg::Kind::Value) return arg.toValue()->type();
  if (arg.kind() == Arg::Kind::Type) return arg.toType();
  return nullptr;
}

const TensorType* tensorOf(const Arg& arg) {
  const TensorType* type = ir::asTensor(typeOf(arg));
  if (type && (type->layout != Layout::Strided || ir::category(type->dtype) == 'x')) {
    unsupported("a tensor that is not strided, or of a dtype without arithmetic");
  }
  return type;
}

// A Python number that stands where a tensor is expected.
bool isNumber(const Arg& arg) {
  return (arg.kind() >= Arg::Kind::Bool && arg.kind() <= Arg::Kind::Complex) ||
         (arg.kind() >= Arg::Kind::SymInt && arg.kind() <= Arg::Kind::SymFloat);
}

Int intOf(const Arg& arg) {
  switch (arg.kind()) {
    case Arg::Kind::Int:
      return arg.toInt();
    case Arg::Kind::Bool:
      return Int(int64_t{arg.toBool()});
    case Arg::Kind::SymInt:
      return Int(arg.toSym());
    default:
      break;
  }
  const ir::ScalarType* type = ir::asScalar(typeOf(arg));
  if (type && type->kind == TypeKind::Int && type->expression) return Int(type->expression);
  refuse("an argument is no integer");
}

}  // namespace

const TensorType* Infer::optionalTensor(size_t i) const {
  if (!given(i)) return nullptr;
  if (isNumber(args_[i])) return &wrapped(i);
  if (const TensorType* type = tensorOf(args_[i])) return type;
  refuse("argument " + std::to_string(i) + " is no tensor");
}

const TensorType& Infer::tensor(size_t i) const {
  if (const TensorType* type = optionalTensor(i)) return *type;
  refuse("argument " + std::to_string(i) + " must be a tensor");
}

Tensors Infer::tensors(size_t i) const {
  if (i >= args_.size() || !args_[i].isList()) refuse("argument " + std::to_string(i) + " must be a list of tensors");
  Tensors out;
  for (const Arg& item : args_[i].toList()) {
    const TensorType* type = item.isNone() ? nullptr : tensorOf(item);
    if (!type && !item.isNone()) refuse("a list of tensors holds something else");
    out.push_back(type);
  }
  return out;
}

Int Infer::integer(size_t i) const {
  if (!given(i)) refuse("argument " + std::to_string(i) + " must be an integer");
  return intOf(args_[i]);
}

Dims Infer::ints(size_t i) const {
  Dims out;
  if (!given(i)) refuse("argument " + std::to_string(i) + " must be a list of integers");
  if (!args_[i].isList()) {
    out.push_back(intOf(args_[i]));
  } else {
    for (const Arg& item : args_[i].toList()) out.push_back(intOf(item));
  }
  return out;
}

bool Infer::boolean(size_t i, bool otherwise) const {
  if (!given(i)) return otherwise;
  const Arg& arg = args_[i];
  if (arg.kind() == Arg::Kind::Bool) return arg.toBool();
  if (arg.kind() == Arg::Kind::SymBool) return static_cast<bool>(Bool(arg.toSym()));
  if (arg.kind() == Arg::Kind::Int) return arg.toInt() != 0;
  const ir::ScalarType* type = ir::asScalar(typeOf(arg));
  if (type && type->kind == TypeKind::Bool && type->expression) return static_cast<bool>(Bool(type->expression));
  refuse("argument " + std::to_string(i) + " must be a bool");
}

double Infer::number(size_t i, double otherwise) const {
  if (!given(i)) return otherwise;
  Scalar value = scalar(i);
  if (!value.known) unsupported("a rule depends on the value of a number that is not known");
  return value.number;
}

Scalar Infer::scalar(size_t i) const {
  if (!given(i)) refuse("argument " + std::to_string(i) + " must be a number");
  const Arg& arg = args_[i];
  switch (arg.kind()) {
    case Arg::Kind::Bool:
      return {Scalar::Kind::Bool, arg.toBool() ? 1.0 : 0.0, true, arg.toBool()};
    case Arg::Kind::Int:
      return {Scalar::Kind::Int, static_cast<double>(arg.toInt()), true, arg.toInt()};
    case Arg::Kind::Float:
      return {Scalar::Kind::Float, arg.toFloat(), true, 0};
    case Arg::Kind::Complex:
      return {Scalar::Kind::Complex, arg.toComplex().real(), true, 0};
    case Arg::Kind::SymInt:
      return {Scalar::Kind::Int, 0, false, 0};
    case Arg::Kind::SymBool:
      return {Scalar::Kind::Bool, 0, false, 0};
    case Arg::Kind::SymFloat:
      return {Scalar::Kind::Float, 0, false, 0};
    default:
      break;
  }
  if (const ir::ScalarType* type = ir::asScalar(typeOf(arg))) {
    switch (type->kind) {
      case TypeKind::Int:
        return {Scalar::Kind::Int, 0, false, 0};
      case TypeKind::Bool:
        return {Scalar::Kind::Bool, 0, false, 0};
      case TypeKind::Float:
        return {Scalar::Kind::Float, 0, false, 0};
      case TypeKind::Complex:
        return {Scalar::Kind::Complex, 0, false, 0};
      default:
        break;
    }
  }
  refuse("argument " + std::to_string(i) + " must be a number");
}

const TensorType& Infer::wrapped(size_t i) const {
  TensorSpec spec;
  spec.dtype = scalar(i).dtype();
  spec.flags.wrappedNumber = true;
  return *context_.types().tensor(spec);
}

std::string_view Infer::string(size_t i) const {
  if (!given(i) || args_[i].kind() != Arg::Kind::String) refuse("argument " + std::to_string(i) + " must be a string");
  return args_[i].toString();
}

namespace {

// A graph may compute what it gives for such an argument: then it is not known here.
void requireKnown(const Arg& arg, Arg::Kind kind) {
  if (arg.kind() != kind) unsupported("a dtype, device, layout or memory format is not known");
}

}  // namespace

std::optional<DType> Infer::dtype(size_t i) const {
  if (!given(i)) return std::nullopt;
  requireKnown(args_[i], Arg::Kind::DType);
  return args_[i].toDType();
}
std::optional<Device> Infer::device(size_t i) const {
  if (!given(i)) return std::nullopt;
  requireKnown(args_[i], Arg::Kind::Device);
  return args_[i].toDevice();
}
std::optional<Layout> Infer::layout(size_t i) const {
  if (!given(i)) return std::nullopt;
  requireKnown(args_[i], Arg::Kind::Layout);
  return args_[i].toLayout();
}
std::optional<MemoryFormat> Infer::memoryFormat(size_t i) const {
  if (!given(i)) return std::nullopt;
  requireKnown(args_[i], Arg::Kind::MemoryFormat);
  return args_[i].toMemoryFormat();
}

TensorSpec Infer::viewOf(const TensorType& base) const {
  TensorSpec spec(base);
  spec.flags.requiresGrad = false;
  spec.flags.wrappedNumber = false;
  return spec;
}

void Infer::strided(std::span<const Int> sizes, std::span<const Int> strides, DType dtype, Device device) {
  TensorSpec spec;
  spec.dtype = dtype;
  spec.device = device;
  spec.sizes = Dims(sizes);
  spec.strides = Dims(strides);
  result(spec);
}

void Infer::contiguous(std::span<const Int> sizes, DType dtype, Device device) {
  strided(sizes, ir::contiguousStrides(sizes), dtype, device);
}

namespace {

// What the functional rule computed is stored into `target`, which keeps its own dtype.
void checkStorable(const Operator& op, const TensorType& computed, const TensorType& target, bool exact) {
  bool fits = exact ? computed.dtype == target.dtype : canCast(computed.dtype, target.dtype);
  if (!fits) {
    refuse(op.qualified + ": a result of type " + std::string(ir::name(computed.dtype)) + " does not fit into " +
           std::string(ir::name(target.dtype)));
  }
  if (computed.device != target.device) {
    refuse(op.qualified + ": a result on " + ir::toString(computed.device) + " does not fit into a tensor on " +
           ir::toString(target.device));
  }
}

void finishInplace(const Operator& op, Infer& in, Inferred& out) {
  const TensorType* computed = ir::asTensor(out.results[0]);
  const TensorType& self = in.tensor(0);
  if (!sameSizes(computed->sizes(), self.sizes())) {
    refuse(op.qualified + ": the result's shape is not the shape of the tensor that is written");
  }
  checkStorable(op, *computed, self, false);
  if (hasInternalOverlap(self)) refuse(op.qualified + ": several elements of the written tensor share one address");
  out.results[0] = &self;
}

void finishOut(const Operator& op, Infer& in, ir::Context& context, Inferred& out) {
  size_t next = 0;
  for (size_t i = 0; i < op.parsed.arguments.size(); ++i) {
    // Positional arguments that are written (running statistics) are no results.
    if (!op.writesArgument(i) || !op.parsed.arguments[i].keywordOnly) continue;
    if (next >= out.results.size()) break;
    const TensorType* computed = ir::asTensor(out.results[next]);
    if (!computed) refuse(op.qualified + ": a result that is not asked for has no place in out=");
    const TensorType& target = in.tensor(i);
    checkStorable(op, *computed, target, op.has(kExactOut) || op.has(kCopiedOut));
    if (!sameSizes(computed->sizes(), target.sizes())) {
      // Resized: it takes the strides that a fresh result has.
      TensorSpec spec(target);
      spec.sizes = Dims(computed->sizes());
      spec.strides = op.has(kCopiedOut) ? ir::contiguousStrides(spec.sizes) : Dims(computed->strides());
      out.results[next] = context.types().tensor(spec);
    } else {
      if (hasInternalOverlap(target)) refuse(op.qualified + ": several elements of out= share one address");
      out.results[next] = &target;
    }
    ++next;
  }
}

// Most arguments that lead to these are refused by rules, with better words.
void requireSound(const Type* type) {
  const TensorType* tensor = ir::asTensor(type);
  if (!tensor) return;
  auto negative = [](const Int& number) { return number.isConst() && number.constant() < 0; };
  for (size_t i = 0; i < 2 * size_t{tensor->rank}; ++i) {
    if (negative(tensor->dims[i])) refuse("a result would have a negative size or stride");
  }
  if (negative(tensor->offset)) refuse("a result would begin in front of its memory");
}

}  // namespace

Inferred infer(const Operator& op, ir::Context& context, std::span<const Arg> args) {
  Inferred out;
  Infer in(op, context, args, out);
  try {
    op.infer(in);
    if (!op.has(kOwnWrites)) {
      if (op.variant == Variant::Inplace) finishInplace(op, in, out);
      if (op.variant == Variant::Out) finishOut(op, in, context, out);
    }
    for (const Type* result : out.results) requireSound(result);
  } catch (RefusalException& e) {
    out.refusal = std::move(e.refusal);
  } catch (const sym::Undecided& e) {
    out.refusal = Refusal{Reason::Undecided, e.what()};
  } catch (const sym::Overflow& e) {
    out.refusal = Refusal{Reason::Overflow, e.what()};
  }
  return out;
}

}  // namespace saker::ops
