// From PyTorch's values to ours: tensors to types, the arguments of a boxed call to ir::Arg.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <span>
#include <vector>

#include "aten/sym_node.h"
#include "ir/arg.h"
#include "ir/context.h"
#include "ops/infer.h"
#include "support/arena.h"

namespace saker::aten {

// What an integer at an argument position means. All other kinds show in the value itself.
enum class IntMeaning : uint8_t { Number, DType, Layout, MemoryFormat };
std::vector<IntMeaning> intMeanings(const c10::FunctionSchema& schema);

// Finds our node inside a wrapper that is not ours, or nullptr. Python's bindings wrap the nodes of torch.SymFloat and
// torch.SymBool once more; who knows Python knows how to look inside.
using Unwrap = const SymNode* (*)(const c10::SymNodeImpl& node);

// Lists and numbers that do not fit in an Arg go to the arena; text stays where it is, in the values.
class Converter {
 public:
  Converter(ir::Context& context, Arena& arena, Unwrap unwrap) : context_(context), arena_(arena), unwrap_(unwrap) {}
  virtual ~Converter() = default;

  // Throws ops::RefusalException where a value has no counterpart (a symbol of someone else).
  std::span<const ir::Arg> arguments(std::span<const IntMeaning> meanings, std::span<const c10::IValue> values);
  ir::Arg argument(const c10::IValue& value, IntMeaning meaning);
  const ir::TensorType* tensor(const at::Tensor& tensor) { return context_.types().tensor(spec(tensor)); }
  ir::TensorSpec spec(const at::Tensor& tensor);
  sym::Int integer(const c10::SymInt& value);

 private:
  // What stands for a defined tensor, and for an object that is not ours. Here: its type, its address.
  virtual ir::Arg tensorArg(const at::Tensor& tensor) { return ir::Arg::type(this->tensor(tensor)); }
  virtual ir::Arg opaqueArg(std::string_view className, const c10::IValue& object);
  const sym::Node* symbol(const c10::SymNodeImpl* node);

  ir::Context& context_;
  Arena& arena_;
  Unwrap unwrap_;
};

// Whether a tensor has this type, but for what autograd and Python say of it (requires_grad, a wrapped number), which
// the type says nothing of. false where that is not seen at once: symbols, other layouts.
bool surelyHasType(const at::Tensor& tensor, const ir::TensorType& type);

// A device as tensors on it report it: "cuda" is the current CUDA device.
ir::Device resolveDevice(c10::Device device);

// The context of the first symbol of ours among the values, the sizes of tensors included; nullptr if there is none.
SharedContext contextOf(std::span<const c10::IValue> values, Unwrap unwrap);

}  // namespace saker::aten
