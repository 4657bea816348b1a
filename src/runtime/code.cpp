#include "runtime/code.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/empty_strided.h>

#include "ops/operator.h"
#include "runtime/failure.h"
#include "runtime/interpreter.h"
#include "support/check.h"
#include "symbolic/context.h"

namespace saker::runtime {

namespace {

constexpr uint32_t kNone = ~0u;

// Tensors are put in their places later.
class ConstantArguments final : public aten::CallEnvironment {
 public:
  explicit ConstantArguments(const std::vector<c10::IValue>& objects) : objects_(objects) {}
  const at::Tensor& tensor(const ir::Value*) override { return none_; }
  c10::IValue number(const ir::Value*) override { return {}; }
  c10::IValue opaque(const ir::OpaqueRef& reference) override { return objects_.at(reference.number); }
  const sym::Assignment& symbols() override { return symbols_; }

 private:
  const std::vector<c10::IValue>& objects_;
  at::Tensor none_;
  sym::Assignment symbols_;
};

class InterpretedRun final : public Interpreter {
 public:
  InterpretedRun(const ir::Graph& graph, const std::vector<c10::IValue>& objects, sym::Assignment symbols)
      : Interpreter(graph, std::move(symbols)), objects_(objects) {}
  c10::IValue opaque(const ir::OpaqueRef& reference) override { return objects_.at(reference.number); }

 private:
  const std::vector<c10::IValue>& objects_;
};

bool isSymbolic(const ir::Arg& arg) {
  switch (arg.kind()) {
    case ir::Arg::Kind::List:
      for (const ir::Arg& item : arg.toList()) {
        if (isSymbolic(item)) return true;
      }
      return false;
    case ir::Arg::Kind::Value:
      return !arg.toValue()->tensor();
    case ir::Arg::Kind::SymInt:
    case ir::Arg::Kind::SymBool:
    case ir::Arg::Kind::SymFloat:
      return true;
    default:
      return false;
  }
}

bool hasValues(const ir::Arg& list) {
  if (!list.isList()) return false;
  for (const ir::Arg& item : list.toList()) {
    if (item.isValue()) return true;
  }
  return false;
}

// A number among tensors is a tensor when the operator is called.
bool hasNumbers(const ir::Node& node) {
  for (const ir::Arg& arg : node.args()) {
    if (!hasValues(arg)) continue;
    for (const ir::Arg& item : arg.toList()) {
      if (!item.isValue() && !item.isNone()) return true;
    }
  }
  return false;
}

c10::TypePtr elementOf(c10::TypePtr type) {
  if (type->kind() == c10::TypeKind::OptionalType) type = type->expectRef<c10::OptionalType>().getElementType();
  return type->expectRef<c10::ListType>().getElementType();
}

}  // namespace

bool isSymbolic(const ir::Graph& graph) {
  for (const ir::Value* parameter : graph.top()->parameters()) {
    if (!parameter->tensor() || parameter->tensor()->symbolic) return true;
  }
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    for (const ir::Arg& arg : node->args()) {
      if (isSymbolic(arg)) return true;
    }
    for (size_t i = 0; i < node->resultCount(); ++i) {
      if (!node->result(i)->tensor() || node->result(i)->tensor()->symbolic) return true;
    }
  }
  return false;
}

struct Code::Instruction {
  struct Operand {
    uint32_t argument;
    uint32_t slot;
    bool last;
    std::vector<uint32_t> list;  // of a list of tensors, kNone for None in it
    bool optional = false;
  };
  struct Result {
    uint32_t slot = kNone;
    bool fresh = false;
    Geometry told;
  };
  c10::OperatorHandle handle;
  std::vector<c10::IValue> arguments;
  std::vector<Operand> operands;
  std::vector<Result> results;
  std::vector<uint32_t> freed;  // slots that nothing reads from here on, beside operands that are moved
  const std::string* name;

  at::Tensor take(const Result& result, at::Tensor real) const;
};

Code::Code(const ir::Graph& graph, const std::vector<c10::IValue>& objects) : graph_(graph), objects_(objects) {
  plain_ = !isSymbolic(graph);
  if (!plain_) return;
  std::vector<uint32_t> lastUse(graph.valueLimit(), kNone);
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    for (const ir::Use& use : node->operands()) lastUse[use.value->id()] = node->id();
    plain_ &= !hasNumbers(*node);
  }
  for (const ir::Node* node = graph.top()->first(); plain_ && node; node = node->next()) {
    if (!node->isReturn()) {
      translate(*node, lastUse);
      continue;
    }
    for (const ir::Arg& arg : node->args()) returned_.push_back(arg.isValue() ? arg.toValue()->id() : kNone);
  }
}

Code::~Code() = default;

void Code::translate(const ir::Node& node, std::vector<uint32_t>& lastUse) {
  SAKER_CHECK(node.regions().empty(), "operators with bodies are not run here");
  aten::Handles handles;
  Instruction made{handles.find(node.op()), {}, {}, {}, {}, &node.op()->qualified};
  const c10::FunctionSchema& schema = made.handle.schema();
  ConstantArguments constants(objects_);
  torch::jit::Stack stack;
  aten::pushArguments(node, schema, constants, stack);
  made.arguments.assign(stack.begin(), stack.end());
  auto isLast = [&](const ir::Value* value) {
    size_t uses = 0;
    for (const ir::Use& use : node.operands()) uses += use.value == value;
    return lastUse[value->id()] == node.id() && uses == 1;
  };
  for (uint32_t i = 0; i < node.args().size(); ++i) {
    const ir::Arg& arg = node.arg(i);
    if (arg.isValue()) {
      made.operands.push_back({i, arg.toValue()->id(), isLast(arg.toValue()), {}, false});
    } else if (hasValues(arg)) {
      Instruction::Operand operand{i, kNone, false, {}, false};
      for (const ir::Arg& item : arg.toList()) operand.list.push_back(item.isValue() ? item.toValue()->id() : kNone);
      operand.optional = elementOf(schema.arguments()[i].type())->kind() == c10::TypeKind::OptionalType;
      made.operands.push_back(std::move(operand));
    }
  }
  for (const ir::Use& use : node.operands()) {
    if (lastUse[use.value->id()] == node.id()) made.freed.push_back(use.value->id());
  }
  size_t index = 0;
  for (size_t i = 0; i < schema.returns().size(); ++i) {
    bool list = schema.returns()[i].type()->kind() == c10::TypeKind::ListType;
    size_t count = list ? node.resultCount() - (schema.returns().size() - 1) : 1;
    for (size_t k = 0; k < count && index < node.resultCount(); ++k, ++index) {
      const ir::Value* value = node.result(index);
      Instruction::Result result;
      result.fresh = schema.returns()[i].alias_info() == nullptr;
      if (value->hasUses()) result.slot = value->id();
      result.told = geometryOf(*value->tensor(), {});
      made.results.push_back(std::move(result));
    }
  }
  instructions_.push_back(std::move(made));
}

at::Tensor Code::Instruction::take(const Result& result, at::Tensor real) const {
  if (!result.fresh) return real;
  checkPlain(*name, real);
  if (real.sizes() != c10::IntArrayRef(result.told.sizes)) {
    failForSizes(*name);
  }
  if (real.strides() == c10::IntArrayRef(result.told.strides) && real.storage_offset() == result.told.offset) {
    return real;
  }
  at::Tensor copy = at::empty_strided(result.told.sizes, result.told.strides, real.options());
  return copy.copy_(real);
}

// Operators that are told strides, and not only give them, find other elements where these are others. What draws
// numbers or is the user's must not be begun and then refused.
bool Code::mayRunFreely() const {
  if (!plain_) return false;
  for (const ir::Node* node = graph_.top()->first(); node; node = node->next()) {
    if (node->isReturn()) continue;
    const ops::Operator* op = ops::of(node);
    const std::string& name = node->op()->qualified;
    bool told = name.find("as_strided") != std::string::npos || name == "aten::_reshape_alias";
    if (!op || op->writes || op->isRandom() || !name.starts_with("aten::") || told) return false;
  }
  return true;
}

std::vector<at::Tensor> Code::run(std::vector<at::Tensor> inputs, std::span<const int64_t> numbers, bool freely) const {
  if (!plain_) return interpret(std::move(inputs), numbers);
  std::vector<at::Tensor> slots(graph_.valueLimit());
  std::span<ir::Value* const> parameters = graph_.top()->parameters();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (parameters[i]->hasUses()) slots[parameters[i]->id()] = std::move(inputs[i]);
  }
  inputs.clear();
  torch::jit::Stack stack;
  for (const Instruction& instruction : instructions_) {
    stack.assign(instruction.arguments.begin(), instruction.arguments.end());
    for (const Instruction::Operand& operand : instruction.operands) {
      if (operand.slot != kNone) {
        stack[operand.argument] = operand.last ? std::move(slots[operand.slot]) : slots[operand.slot];
      } else if (operand.optional) {
        c10::List<std::optional<at::Tensor>> list;
        for (uint32_t slot : operand.list) {
          list.push_back(slot == kNone ? std::optional<at::Tensor>() : std::optional(slots[slot]));
        }
        stack[operand.argument] = std::move(list);
      } else {
        c10::List<at::Tensor> list;
        list.reserve(operand.list.size());
        for (uint32_t slot : operand.list) list.push_back(slots[slot]);
        stack[operand.argument] = std::move(list);
      }
    }
    instruction.handle.callBoxed(&stack);
    for (uint32_t slot : instruction.freed) slots[slot].reset();
    size_t result = 0;
    auto store = [&](at::Tensor tensor) {
      if (result >= instruction.results.size()) return;
      const Instruction::Result& place = instruction.results[result++];
      if (place.slot == kNone || !tensor.defined()) return;
      slots[place.slot] = freely ? std::move(tensor) : instruction.take(place, std::move(tensor));
    };
    for (c10::IValue& value : stack) {
      if (value.isTensor()) {
        store(std::move(value).toTensor());
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list = std::move(value).toTensorList();
        for (size_t k = 0; k < list.size(); ++k) store(list.extract(k));
      } else {
        ++result;
      }
    }
    stack.clear();
  }
  std::vector<at::Tensor> results;
  results.reserve(returned_.size());
  for (uint32_t slot : returned_) results.push_back(slot == kNone ? at::Tensor() : slots[slot]);
  return results;
}

std::vector<at::Tensor> Code::interpret(std::vector<at::Tensor> inputs, std::span<const int64_t> numbers) const {
  sym::Assignment symbols = bindSymbols(graph_, inputs);
  size_t next = 0;
  for (const ir::Value* parameter : graph_.top()->parameters()) {
    const ir::ScalarType* type = ir::asScalar(parameter->type());
    if (!type || next >= numbers.size()) continue;
    int64_t number = numbers[next++];
    if (type->expression && type->expression->kind == sym::Kind::Symbol) {
      symbols.ints[static_cast<size_t>(type->expression->value)] = number;
    }
  }
  InterpretedRun run(graph_, objects_, std::move(symbols));
  for (size_t i = 0; i < inputs.size(); ++i) run.set(graph_.top()->parameters()[i], std::move(inputs[i]));
  run.run();
  std::vector<at::Tensor> results;
  for (const ir::Arg& arg : graph_.top()->terminator()->args()) {
    c10::IValue value = run.returned(arg);
    results.push_back(value.isTensor() ? std::move(value).toTensor() : at::Tensor());
  }
  return results;
}

}  // namespace saker::runtime
