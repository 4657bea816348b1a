#include "ops/promote.h"

#include <optional>
#include <string>

#include "ir/torch_facts.h"
#include "ops/infer.h"

namespace saker::ops {

using ir::category;
using ir::DType;

namespace {

bool isWideUnsigned(DType t) { return t == DType::UInt16 || t == DType::UInt32 || t == DType::UInt64; }

bool isNarrowFloat(DType t) { return ir::isFloat(t) && ir::byteSize(t) == 1; }

[[noreturn]] void noPromotion(DType a, DType b) {
  refuse("no type to promote " + std::string(ir::name(a)) + " and " + std::string(ir::name(b)) + " to");
}

DType promoteIntegers(DType a, DType b) {
  // uint8 and int8 meet in int16; otherwise the wider one holds both.
  if ((a == DType::UInt8 && b == DType::Int8) || (a == DType::Int8 && b == DType::UInt8)) return DType::Int16;
  return ir::byteSize(a) >= ir::byteSize(b) ? a : b;
}

DType promoteFloats(DType a, DType b) {
  if (ir::byteSize(a) == ir::byteSize(b)) return DType::Float32;  // f16 with bf16
  return ir::byteSize(a) > ir::byteSize(b) ? a : b;
}

DType complexOfParts(const ir::Context& context, DType part) {
  if (part == DType::BFloat16 && !context.ambient().torch->complexOfBFloat16) return DType::Complex64;
  return ir::toComplex(part);
}

std::optional<DType> promoteOptional(std::optional<DType> a, std::optional<DType> b) {
  if (!a) return b;
  if (!b) return a;
  return promoteTypes(*a, *b);
}

// `higher` carries more weight: `lower` only adds its kind of number.
std::optional<DType> combine(const ir::Context& context, std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || ir::isComplex(*higher)) return higher;
  if (ir::isComplex(*lower)) {
    if (isNarrowFloat(*higher)) noPromotion(*higher, *lower);
    return ir::isFloat(*higher) ? complexOfParts(context, *higher) : *lower;
  }
  if (ir::isFloat(*higher)) return higher;
  if (*higher == DType::Bool || ir::isFloat(*lower)) return promoteTypes(*higher, *lower);
  return higher;
}

}  // namespace

DType promoteTypes(DType a, DType b) {
  if (a == b) return a;
  if (category(a) == 'x' || category(b) == 'x') noPromotion(a, b);
  if (isNarrowFloat(a) || isNarrowFloat(b)) noPromotion(a, b);
  if (isWideUnsigned(a) || isWideUnsigned(b)) {
    // They only meet floats.
    if (ir::isFloat(a)) return a;
    if (ir::isFloat(b)) return b;
    noPromotion(a, b);
  }
  if (a == DType::Bool) return b;
  if (b == DType::Bool) return a;
  if (category(a) == 'i' && category(b) == 'i') return promoteIntegers(a, b);
  if (category(a) == 'f' && category(b) == 'f') return promoteFloats(a, b);
  if (category(a) == 'c' || category(b) == 'c') {
    if (category(a) == 'i') return b;
    if (category(b) == 'i') return a;
    return ir::toComplex(promoteTypes(ir::toReal(a), ir::toReal(b)));
  }
  return category(a) == 'f' ? a : b;
}

DType defaultComplex(const ir::Context& context) { return complexOfParts(context, context.ambient().defaultDType); }

DType toFloating(const ir::Context& context, DType dtype) {
  return ir::isIntegral(dtype, true) ? context.ambient().defaultDType : dtype;
}

DType resultType(const ir::Context& context, std::span<const ir::TensorType* const> tensors) {
  std::optional<DType> shaped, zeroDim, wrapped;
  for (const ir::TensorType* t : tensors) {
    if (!t) continue;
    if (t->rank > 0) {
      shaped = promoteOptional(shaped, t->dtype);
    } else if (!t->flags.wrappedNumber) {
      zeroDim = promoteOptional(zeroDim, t->dtype);
    } else {
      DType dtype = t->dtype;
      if (ir::isComplex(dtype))
        dtype = defaultComplex(context);
      else if (ir::isFloat(dtype))
        dtype = context.ambient().defaultDType;
      wrapped = promoteOptional(wrapped, dtype);
    }
  }
  std::optional<DType> result = combine(context, shaped, combine(context, zeroDim, wrapped));
  if (!result) refuse("no tensor to take a dtype from");
  return *result;
}

bool canCast(DType from, DType to) {
  if (ir::isComplex(from) && !ir::isComplex(to)) return false;
  if (ir::isFloat(from) && ir::isIntegral(to, false)) return false;
  return from == DType::Bool || to != DType::Bool;
}

}  // namespace saker::ops
