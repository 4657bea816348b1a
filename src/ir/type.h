// Types of values. Types are interned in a TypeTable: equal types are the same object, so they compare by pointer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "ir/dtype.h"
#include "support/arena.h"
#include "support/intern_table.h"
#include "support/small_vec.h"
#include "symbolic/int.h"

namespace saker::ir {

using sym::Bool;
using sym::Float;
using sym::Int;
using Dims = SmallVec<Int, 6>;

enum class TypeKind : uint8_t {
  Tensor,
  Int,    // may name the expression it is: int(s0*2)
  Bool,   // likewise
  Float,  // likewise
  Complex,
  Scalar,  // a number whose kind is not known
  String,
  DType,
  Device,
  Layout,
  MemoryFormat,
  None,
  List,      // element type
  Optional,  // element type
  Opaque,    // class name
};

struct Type {
  TypeKind kind;
  uint64_t hash;
};

struct TensorFlags {
  bool requiresGrad : 1 = false;
  bool wrappedNumber : 1 = false;  // came from a Python number: takes no part in choosing a dtype of its own kind
  bool conj : 1 = false;
  bool neg : 1 = false;
  friend bool operator==(const TensorFlags&, const TensorFlags&) = default;
};

struct TensorType final : Type {
  DType dtype;
  Layout layout;
  Device device;
  TensorFlags flags;
  bool symbolic;  // some size, stride or the offset is an expression
  uint32_t rank;
  Int offset;
  const Int* dims;  // sizes, then strides

  std::span<const Int> sizes() const { return {dims, rank}; }
  std::span<const Int> strides() const { return {dims + rank, rank}; }
  Int size(size_t i) const { return dims[i]; }
  Int stride(size_t i) const { return dims[rank + i]; }
};

struct ScalarType final : Type {
  const sym::Node* expression;  // of Int, Bool and Float; or nullptr
};
struct ContainerType final : Type {  // List, Optional
  const Type* element;
};
struct OpaqueType final : Type {
  std::string_view className;
};

// What a tensor type is made from.
struct TensorSpec {
  DType dtype = DType::Float32;
  Layout layout = Layout::Strided;
  Device device;
  TensorFlags flags;
  Dims sizes;
  Dims strides;
  Int offset = 0;

  TensorSpec() = default;
  explicit TensorSpec(const TensorType& type);
};

class TypeTable {
 public:
  const TensorType* tensor(const TensorSpec& spec);
  const Type* plain(TypeKind kind) { return scalar(kind, nullptr); }  // any kind without parameters
  const Type* scalar(TypeKind kind, const sym::Node* expression);
  const Type* list(const Type* element) { return container(TypeKind::List, element); }
  const Type* optional(const Type* element) { return container(TypeKind::Optional, element); }
  const Type* opaque(std::string_view className);
  size_t size() const { return types_.size(); }

 private:
  const Type* container(TypeKind kind, const Type* element);

  Arena arena_;
  InternTable<Type> types_;
};

inline const TensorType* asTensor(const Type* type) {
  return type && type->kind == TypeKind::Tensor ? static_cast<const TensorType*>(type) : nullptr;
}
inline const ScalarType* asScalar(const Type* type) {
  return type && type->kind != TypeKind::Tensor && type->kind < TypeKind::List ? static_cast<const ScalarType*>(type)
                                                                               : nullptr;
}
inline const ContainerType* asContainer(const Type* type) {
  return type && (type->kind == TypeKind::List || type->kind == TypeKind::Optional)
             ? static_cast<const ContainerType*>(type)
             : nullptr;
}
inline const OpaqueType* asOpaque(const Type* type) {
  return type && type->kind == TypeKind::Opaque ? static_cast<const OpaqueType*>(type) : nullptr;
}

// Row-major strides; a dimension of size 0 or 1 counts as 1, as PyTorch's do.
Dims contiguousStrides(std::span<const Int> sizes);
Int numel(std::span<const Int> sizes);

std::string toString(const Type* type);

}  // namespace saker::ir
