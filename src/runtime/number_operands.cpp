#include "runtime/number_operands.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "aten/call_node.h"

namespace saker::runtime {

namespace {

// Of two operands that are promoted to one type. Their overloads for numbers call those for tensors.
constexpr std::array<std::string_view, 8> kNames = {"aten::add",  "aten::sub",  "aten::mul",  "aten::div",
                                                    "aten::add_", "aten::sub_", "aten::mul_", "aten::div_"};

// With a tensor of these types a real number is of the same type, and kernels compute in it. Those of shorter types
// compute in float, and read the number as it is.
bool computesInItsType(const ir::Arg& arg) {
  const ir::TensorType* type = arg.isValue() ? arg.toValue()->tensor() : nullptr;
  return type && (type->dtype == ir::DType::Float32 || type->dtype == ir::DType::Float64) &&
         type->device == ir::Device{} && type->layout == ir::Layout::Strided && !type->flags.wrappedNumber;
}

bool isRealNumber(const ir::Arg& arg) { return arg.kind() == ir::Arg::Kind::Int || arg.kind() == ir::Arg::Kind::Float; }

// The number stands behind the tensor.
bool isKnown(const ir::Node& node) {
  if (node.args().size() < 2 || !computesInItsType(node.arg(0)) || !isRealNumber(node.arg(1))) return false;
  std::string_view name = node.op()->qualified;
  return std::find(kNames.begin(), kNames.end(), name.substr(0, name.rfind('.'))) != kNames.end();
}

// Without an operator, which might be recorded.
template <typename T>
at::Tensor made(const ir::Arg& number) {
  at::Tensor tensor = at::detail::empty_cpu({}, c10::TensorOptions(c10::CppTypeToScalarType<T>::value));
  bool whole = number.kind() == ir::Arg::Kind::Int;
  *tensor.mutable_data_ptr<T>() = whole ? static_cast<T>(number.toInt()) : static_cast<T>(number.toFloat());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace

std::optional<c10::OperatorHandle> withTensor(const ir::Node& node) {
  constexpr std::string_view kScalar = ".Scalar";
  const std::string& name = node.op()->qualified;
  if (!name.ends_with(kScalar) || !isKnown(node)) return std::nullopt;
  return aten::findOperator(name.substr(0, name.size() - kScalar.size()) + ".Tensor");
}

std::optional<at::Tensor> castNumber(const ir::Node& node, size_t index) {
  const std::string& name = node.op()->qualified;
  if (index != 1 || !(name.ends_with(".Tensor") || name.ends_with(".Scalar")) || !isKnown(node)) return std::nullopt;
  ir::DType dtype = node.arg(0).toValue()->tensor()->dtype;
  return dtype == ir::DType::Float32 ? made<float>(node.arg(1)) : made<double>(node.arg(1));
}

}  // namespace saker::runtime
