// A call of one of PyTorch's structured kernels, kept: its meta function has run once, and its implementation runs each
// time. Those that iterate over elements keep their iterator, which is given other memory where that may differ.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "aten/kept_call.h"
#include "aten/torch_version/structured_outputs.h"

namespace saker::aten {

// An argument as it is kept between runs, and as the kernel takes it.
template <typename Given>
struct KeptArgument;

template <>
struct KeptArgument<const at::Tensor&> {
  const at::Tensor* tensor;
  at::Tensor own;  // a constant of the graph
  KeptArgument(const c10::IValue& value, const KeptTensor& given) : tensor(given.at) {
    if (!tensor) own = value.toTensor();
  }
  const at::Tensor& get() const { return tensor ? *tensor : own; }
};

template <>
struct KeptArgument<const at::Scalar&> {
  at::Scalar number;
  KeptArgument(const c10::IValue& value, const KeptTensor&) : number(value.toScalar()) {}
  const at::Scalar& get() const { return number; }
};

template <>
struct KeptArgument<at::OptionalScalarRef> {
  std::optional<at::Scalar> number;
  KeptArgument(const c10::IValue& value, const KeptTensor&) {
    if (!value.isNone()) number = value.toScalar();
  }
  at::OptionalScalarRef get() const { return number ? at::OptionalScalarRef(*number) : at::OptionalScalarRef(); }
};

template <>
struct KeptArgument<c10::string_view> {
  std::string text;
  KeptArgument(const c10::IValue& value, const KeptTensor&) : text(value.toStringRef()) {}
  c10::string_view get() const { return text; }
};

template <>
struct KeptArgument<std::optional<c10::string_view>> {
  std::optional<std::string> text;
  KeptArgument(const c10::IValue& value, const KeptTensor&) {
    if (!value.isNone()) text = value.toStringRef();
  }
  std::optional<c10::string_view> get() const { return text ? std::optional<c10::string_view>(*text) : std::nullopt; }
};

template <typename Number>
  requires std::is_arithmetic_v<Number> || std::is_same_v<Number, at::ScalarType>
struct KeptArgument<Number> {
  Number number;
  KeptArgument(const c10::IValue& value, const KeptTensor&) : number(value.to<Number>()) {}
  Number get() const { return number; }
};

template <typename Number>
  requires std::is_arithmetic_v<Number> || std::is_same_v<Number, at::ScalarType>
struct KeptArgument<std::optional<Number>> {
  std::optional<Number> number;
  KeptArgument(const c10::IValue& value, const KeptTensor&) : number(value.toOptional<Number>()) {}
  std::optional<Number> get() const { return number; }
};

template <>
struct KeptArgument<at::IntArrayRef> {
  std::vector<int64_t> numbers;
  KeptArgument(const c10::IValue& value, const KeptTensor&) : numbers(value.toIntVector()) {}
  at::IntArrayRef get() const { return numbers; }
};

template <>
struct KeptArgument<at::OptionalIntArrayRef> {
  std::optional<std::vector<int64_t>> numbers;
  KeptArgument(const c10::IValue& value, const KeptTensor&) {
    if (!value.isNone()) numbers = value.toIntVector();
  }
  at::OptionalIntArrayRef get() const {
    return numbers ? at::OptionalIntArrayRef(*numbers) : at::OptionalIntArrayRef();
  }
};

// `Given` are the arguments of the operator; behind them an implementation takes the result.
template <typename Kernel, typename... Given>
class StructuredCall final : public KeptCall, private WithToldOutputs<Kernel> {
  static constexpr bool kIterates = std::is_base_of_v<at::TensorIteratorBase, Kernel>;

 public:
  // nullptr: it computes in copies of its arguments, or the result has to be another one.
  static std::unique_ptr<KeptCall> prepare(const KeptArguments& arguments) {
    if (arguments.values.size() != sizeof...(Given)) return nullptr;
    std::unique_ptr<StructuredCall> made(new StructuredCall(arguments, std::index_sequence_for<Given...>()));
    return made->fits_ ? std::move(made) : nullptr;
  }

 private:
  template <size_t... i>
  StructuredCall(const KeptArguments& arguments, std::index_sequence<i...>)
      : arguments_(KeptArgument<Given>(arguments.values[i], arguments.tensors[i])...), result_(arguments.result.at) {
    this->meta(std::get<i>(arguments_).get()...);
    if constexpr (kIterates) findOperands(arguments);
    if (fits_) keep(arguments);
  }

  void compute() override {
    if constexpr (kIterates) {
      for (const auto& [operand, tensor] : moving_) {
        this->operand(operand).tensor(c10::MaybeOwned<at::TensorBase>::borrowed(*tensor));
        this->_unsafe_set_arg_data(operand, dataOf(operand, *tensor));
      }
    }
    std::apply([&](const auto&... each) { this->impl(each.get()..., *result_); }, arguments_);
    // Some kernels take an operand of one number out of the iterator, and read it themselves.
    if constexpr (kIterates) spent_ = this->ntensors() != operands_;
  }

  void* dataOf(int operand, const at::Tensor& tensor) {
    return this->operand(operand).is_const ? const_cast<void*>(tensor.const_data_ptr()) : tensor.mutable_data_ptr();
  }

  // Which operand of the iterator is which tensor of the call. Others may only be numbers that the kernel has made
  // tensors of: a copy of a tensor would have the elements of this run.
  void findOperands(const KeptArguments& arguments) {
    operands_ = this->ntensors();
    for (int i = 0; fits_ && i < this->ntensors(); ++i) {
      const at::TensorBase& original = this->operand(i).original_tensor_base();
      bool copied = original.defined();
      const c10::TensorImpl* impl = (copied ? original : this->tensor_base(i)).unsafeGetTensorImpl();
      bool known = false;
      const at::Tensor* moving = nullptr;
      auto look = [&](const KeptTensor& each) {
        if (!each.at || each.at->unsafeGetTensorImpl() != impl) return;
        known = true;
        if (each.fixed) return;
        // One tensor that is given twice now may be two in the next run.
        fits_ &= !moving || moving == each.at;
        moving = each.at;
      };
      for (const KeptTensor& each : arguments.tensors) look(each);
      look(arguments.result);
      if (known) fits_ &= !copied;
      if (!known) fits_ &= isConstant(arguments, impl) || impl->is_wrapped_number();
      if (moving) moving_.emplace_back(i, moving);
    }
  }

  static bool isConstant(const KeptArguments& arguments, const c10::TensorImpl* impl) {
    for (const c10::IValue& value : arguments.values) {
      if (value.isTensor() && value.toTensor().unsafeGetTensorImpl() == impl) return true;
    }
    return false;
  }

  const at::Tensor& maybe_get_output(int64_t) override { return *result_; }

  void told(int64_t, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::TensorOptions options,
            bool exactly) override {
    fits_ &= result_->sizes() == sizes && result_->dtype() == options.dtype() && result_->device() == options.device();
    if (exactly && !strides.empty()) fits_ &= result_->strides() == strides;
  }

  std::tuple<KeptArgument<Given>...> arguments_;
  const at::Tensor* result_;
  std::vector<std::pair<int, const at::Tensor*>> moving_;
  int operands_ = 0;  // of the iterator
  bool fits_ = true;
};

template <typename Implementation>
struct StructuredCallOf;
template <typename Kernel, typename... Given>
struct StructuredCallOf<void (Kernel::*)(Given...)> {
  // All but the result.
  template <size_t... i>
  static std::unique_ptr<KeptCall> prepare(const KeptArguments& arguments, std::index_sequence<i...>) {
    using All = std::tuple<Given...>;
    return StructuredCall<Kernel, std::tuple_element_t<i, All>...>::prepare(arguments);
  }
};

template <typename Kernel>
std::unique_ptr<KeptCall> prepareStructured(const KeptArguments& arguments) {
  using Implementation = decltype(&Kernel::impl);
  constexpr size_t count = []<typename... Given>(void (Kernel::*)(Given...)) {
    return sizeof...(Given) - 1;
  }(Implementation{});
  return StructuredCallOf<Implementation>::prepare(arguments, std::make_index_sequence<count>());
}

}  // namespace saker::aten
