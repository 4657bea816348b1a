#include "ir/type.h"

#include "support/check.h"

namespace saker::ir {
namespace {

uint64_t hashHead(const TensorSpec& spec) {
  uint64_t word = static_cast<uint64_t>(spec.dtype) | static_cast<uint64_t>(spec.layout) << 8 |
                  static_cast<uint64_t>(spec.device.type) << 16 |
                  uint64_t{static_cast<uint8_t>(spec.device.index)} << 24 | uint64_t{spec.flags.requiresGrad} << 32 |
                  uint64_t{spec.flags.wrappedNumber} << 33 | uint64_t{spec.flags.conj} << 34 |
                  uint64_t{spec.flags.neg} << 35 | static_cast<uint64_t>(spec.sizes.size()) << 40;
  return hashMix(static_cast<uint64_t>(TypeKind::Tensor), word);
}

bool sameInts(std::span<const Int> a, std::span<const Int> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].same(b[i])) return false;
  }
  return true;
}

}  // namespace

TensorSpec::TensorSpec(const TensorType& type)
    : dtype(type.dtype),
      layout(type.layout),
      device(type.device),
      flags(type.flags),
      sizes(type.sizes()),
      strides(type.strides()),
      offset(type.offset) {}

const TensorType* TypeTable::tensor(const TensorSpec& spec) {
  Dims rowMajor;
  if (spec.strides.empty()) rowMajor = contiguousStrides(spec.sizes);
  const Dims& strides = spec.strides.empty() ? rowMajor : spec.strides;
  SAKER_CHECK(strides.size() == spec.sizes.size(), "a tensor has one stride per dimension");

  uint64_t hash = hashHead(spec);
  bool symbolic = !spec.offset.isConst();
  for (const Int& size : spec.sizes) {
    hash = hashMix(hash, size.hashWord());
    symbolic |= !size.isConst();
  }
  for (const Int& stride : strides) {
    hash = hashMix(hash, stride.hashWord());
    symbolic |= !stride.isConst();
  }
  hash = hashMix(hash, spec.offset.hashWord());

  const Type* found = types_.findOrMake(
      hash,
      [&](const Type& type) {
        const TensorType* t = asTensor(&type);
        return t && t->dtype == spec.dtype && t->layout == spec.layout && t->device == spec.device &&
               t->flags == spec.flags && sameInts(t->sizes(), spec.sizes) && sameInts(t->strides(), strides) &&
               t->offset.same(spec.offset);
      },
      [&]() -> const Type* {
        size_t rank = spec.sizes.size();
        Int* dims = arena_.makeArray<Int>(2 * rank);
        for (size_t i = 0; i < rank; ++i) {
          dims[i] = spec.sizes[i];
          dims[rank + i] = strides[i];
        }
        TensorType* type = arena_.make<TensorType>();
        type->kind = TypeKind::Tensor;
        type->hash = hash;
        type->dtype = spec.dtype;
        type->layout = spec.layout;
        type->device = spec.device;
        type->flags = spec.flags;
        type->symbolic = symbolic;
        type->rank = static_cast<uint32_t>(rank);
        type->offset = spec.offset;
        type->dims = dims;
        return type;
      });
  return static_cast<const TensorType*>(found);
}

const Type* TypeTable::scalar(TypeKind kind, const sym::Node* expression) {
  SAKER_CHECK(kind != TypeKind::Tensor && kind < TypeKind::List, "a type without parameters");
  SAKER_CHECK(!expression || (kind == TypeKind::Int && expression->isInt()) ||
                  (kind == TypeKind::Bool && expression->isBool()) ||
                  (kind == TypeKind::Float && expression->isFloat()),
              "a scalar type names an expression of its own kind");
  uint64_t hash = hashMix(static_cast<uint64_t>(kind), expression ? expression->hash : 0);
  return types_.findOrMake(
      hash,
      [&](const Type& type) {
        return type.kind == kind && static_cast<const ScalarType&>(type).expression == expression;
      },
      [&]() -> const Type* { return arena_.make<ScalarType>(ScalarType{{kind, hash}, expression}); });
}

const Type* TypeTable::container(TypeKind kind, const Type* element) {
  SAKER_CHECK(element, "a container has an element type");
  uint64_t hash = hashMix(static_cast<uint64_t>(kind), element->hash);
  return types_.findOrMake(
      hash,
      [&](const Type& type) { return type.kind == kind && static_cast<const ContainerType&>(type).element == element; },
      [&]() -> const Type* { return arena_.make<ContainerType>(ContainerType{{kind, hash}, element}); });
}

const Type* TypeTable::opaque(std::string_view className) {
  uint64_t hash = static_cast<uint64_t>(TypeKind::Opaque);
  for (char c : className) hash = hashMix(hash, static_cast<uint8_t>(c));
  return types_.findOrMake(
      hash,
      [&](const Type& type) {
        return type.kind == TypeKind::Opaque && static_cast<const OpaqueType&>(type).className == className;
      },
      [&]() -> const Type* {
        return arena_.make<OpaqueType>(OpaqueType{{TypeKind::Opaque, hash}, arena_.copy(className)});
      });
}

Dims contiguousStrides(std::span<const Int> sizes) {
  Dims strides(sizes.size(), Int(1));
  for (size_t i = sizes.size(); i-- > 1;) {
    Int size = sizes[i];
    // Where a symbol is known to be at least 1, max(s, 1) would only hide that.
    if (size.isConst() ? size.constant() < 1 : !(size >= Int(1)).provablyTrue()) size = max(size, Int(1));
    strides[i - 1] = strides[i] * size;
  }
  return strides;
}

Int numel(std::span<const Int> sizes) {
  Int count = 1;
  for (Int size : sizes) count *= size;
  return count;
}

}  // namespace saker::ir
