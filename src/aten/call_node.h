// From our nodes to PyTorch's calls: a node's arguments become a boxed call.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <string>
#include <unordered_map>

#include "ir/graph.h"
#include "symbolic/context.h"

namespace saker::aten {

// Where a node's arguments come from when it runs.
class CallEnvironment {
 public:
  virtual ~CallEnvironment() = default;
  virtual const at::Tensor& tensor(const ir::Value* value) = 0;
  virtual c10::IValue number(const ir::Value* value) = 0;  // a value that is no tensor
  virtual c10::IValue opaque(const ir::OpaqueRef& reference) = 0;
  virtual c10::IValue expression(const sym::Node* node) = 0;  // its value
  // The tensor that stands for a number that was computed beside a tensor.
  virtual at::Tensor numberTensor(const c10::IValue& number);
};

// The value of an expression. Throws std::runtime_error where it has none.
c10::IValue evaluate(const sym::Node* node, const sym::Assignment& symbols);
[[noreturn]] void failWithoutValue(const sym::Node* node);

// The dispatcher's operator of this name ("aten::add.Tensor"), if PyTorch has it.
std::optional<c10::OperatorHandle> findOperator(const std::string& qualified);

// An operator of the dispatcher for each operator of a graph, looked up once.
class Handles {
 public:
  const c10::OperatorHandle& find(const ir::OpDef* op);

 private:
  std::unordered_map<const ir::OpDef*, c10::OperatorHandle> handles_;
};

// Pushes the node's arguments in the order of the dispatcher's schema.
void pushArguments(const ir::Node& node, const c10::FunctionSchema& schema, CallEnvironment& environment,
                   torch::jit::Stack& stack);

// One argument, as a parameter of this type takes it.
c10::IValue argument(const ir::Arg& arg, const c10::Type& type, CallEnvironment& environment);

// A number, string, device or other constant in an argument, as PyTorch has it.
c10::IValue constantArgument(const ir::Arg& arg, CallEnvironment& environment);

// The 0-d tensor that PyTorch makes of a Python number beside a tensor.
at::Tensor wrappedNumber(const ir::Arg& number);

}  // namespace saker::aten
