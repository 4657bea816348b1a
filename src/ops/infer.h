// Output inference: what the results of an operator look like, from its arguments, without running it. Rules are
// written with sym::Int as if sizes were numbers; a question about a symbol is answered by facts or leaves a guard.
//
// A rule accepts exactly what the eager operator accepts (errors that depend on data aside): where it refuses, the
// caller runs the real operator, so that the error is eager's own.
#pragma once

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ir/arg.h"
#include "ir/context.h"
#include "ir/type.h"
#include "ops/operator.h"

namespace saker::ops {

using ir::Arg;
using ir::Device;
using ir::DeviceType;
using ir::Dims;
using ir::DType;
using ir::Layout;
using ir::MemoryFormat;
using ir::TensorFlags;
using ir::TensorSpec;
using ir::TensorType;
using sym::Bool;
using sym::Int;

// Why there is no inferred result.
#define SAKER_REFUSALS(X)                                        \
  X(BadArgument, "the operator does not accept these arguments") \
  X(Unsupported, "the rule does not cover this case")            \
  X(DataDependent, "the result depends on data")                 \
  X(Undecided, "a symbolic condition could not be decided")      \
  X(Overflow, "a size does not fit in 64 bits")

enum class Reason : uint8_t {
#define X(enumerator, meaning) enumerator,
  SAKER_REFUSALS(X)
#undef X
};
std::string_view name(Reason reason);
std::string_view meaning(Reason reason);

struct Refusal {
  Reason reason;
  std::string message;
};

struct Inferred {
  SmallVec<const ir::Type*, 4> results;  // Tensor[] results are laid out flat
  std::optional<Refusal> refusal;
  bool ok() const { return !refusal; }
};

// `args` by schema position, defaults filled in; missing ones at the end count as None. Tensors are values or types.
Inferred infer(const Operator& op, ir::Context& context, std::span<const Arg> args);

// Thrown inside rules only; infer() turns it into a value.
struct RefusalException {
  Refusal refusal;
};
[[noreturn]] void refuse(std::string message);       // eager raises too
[[noreturn]] void unsupported(std::string message);  // eager may well accept
[[noreturn]] void refuse(Reason reason, std::string message);

// A number given as an argument. Its kind takes part in type promotion, its value in few rules.
struct Scalar {
  enum class Kind : uint8_t { Bool, Int, Float, Complex } kind = Kind::Int;
  double number = 0;    // real part
  bool known = true;    // false: symbolic or a value of the graph
  int64_t integer = 0;  // of Bool and Int
  DType dtype() const;  // what a 0-d tensor of it has: bool, i64, f64 or c128
};

using Tensors = SmallVec<const TensorType*, 8>;

class Infer {
 public:
  Infer(const Operator& op, ir::Context& context, std::span<const Arg> args, Inferred& out)
      : op_(op), context_(context), args_(args), out_(out) {}

  const Operator& op() const { return op_; }
  ir::Context& context() const { return context_; }

  // Arguments, by position. Reading one that is absent or of another kind refuses.
  bool given(size_t i) const { return i < args_.size() && !args_[i].isNone(); }
  const TensorType& tensor(size_t i) const;
  const TensorType* optionalTensor(size_t i) const;  // nullptr for None
  Tensors tensors(size_t i) const;                   // a list; None among them is nullptr
  Int integer(size_t i) const;
  Int integer(size_t i, Int otherwise) const { return given(i) ? integer(i) : otherwise; }
  int64_t fixed(size_t i) const { return integer(i).guard(); }  // an int that must be a number
  int64_t fixed(size_t i, int64_t otherwise) const { return given(i) ? fixed(i) : otherwise; }
  Dims ints(size_t i) const;  // a list; a single int counts as a list of one
  bool boolean(size_t i, bool otherwise = false) const;
  double number(size_t i, double otherwise = 0) const;
  Scalar scalar(size_t i) const;
  // A number or a 0-d stand-in for it: what binary operators make of a Scalar argument.
  const TensorType& wrapped(size_t i) const;
  std::string_view string(size_t i) const;
  std::optional<DType> dtype(size_t i) const;
  std::optional<Device> device(size_t i) const;
  std::optional<Layout> layout(size_t i) const;
  std::optional<MemoryFormat> memoryFormat(size_t i) const;
  const Arg& arg(size_t i) const { return args_[i]; }
  size_t argCount() const { return args_.size(); }

  // Results, in order.
  void result(const TensorSpec& spec) { out_.results.push_back(context_.types().tensor(spec)); }
  void result(const TensorType& same) { out_.results.push_back(&same); }
  void result(const ir::Type* type) { out_.results.push_back(type); }
  // What operators below autograd return: the type without requires_grad and wrapped-number marks, conj and neg kept.
  TensorSpec viewOf(const TensorType& base) const;
  // A fresh tensor with strides of its own.
  void strided(std::span<const Int> sizes, std::span<const Int> strides, DType dtype, Device device);
  // A fresh row-major tensor.
  void contiguous(std::span<const Int> sizes, DType dtype, Device device);
  void contiguous(std::span<const Int> sizes, const TensorType& like) { contiguous(sizes, like.dtype, like.device); }

 private:
  const Operator& op_;
  ir::Context& context_;
  std::span<const Arg> args_;
  Inferred& out_;
};

}  // namespace saker::ops
