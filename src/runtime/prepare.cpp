#include "runtime/prepare.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <stdexcept>

#include "aten/enums.h"
#include "ops/control_flow.h"
#include "ops/effects.h"
#include "ops/group.h"
#include "ops/operator.h"
#include "runtime/compile_queue.h"
#include "runtime/number_operands.h"
#include "symbolic/context.h"

namespace saker::runtime {

namespace {

// Tensors and what is computed are put in their places in each run.
class ConstantArguments final : public aten::CallEnvironment {
 public:
  explicit ConstantArguments(const std::vector<c10::IValue>& objects) : objects_(objects) {}
  const at::Tensor& tensor(const ir::Value*) override { return none_; }
  c10::IValue number(const ir::Value*) override { return {}; }
  c10::IValue opaque(const ir::OpaqueRef& reference) override { return objects_.at(reference.number); }
  c10::IValue expression(const sym::Node*) override { return {}; }

 private:
  const std::vector<c10::IValue>& objects_;
  at::Tensor none_;
};

bool isExpression(const ir::Arg& arg) {
  return arg.kind() == ir::Arg::Kind::SymInt || arg.kind() == ir::Arg::Kind::SymBool ||
         arg.kind() == ir::Arg::Kind::SymFloat;
}

bool isTensorValue(const ir::Arg& arg) { return arg.isValue() && arg.toValue()->tensor(); }

template <typename F>
bool anyPart(const ir::Arg& arg, F f) {
  if (!arg.isList()) return f(arg);
  for (const ir::Arg& item : arg.toList()) {
    if (anyPart(item, f)) return true;
  }
  return false;
}

bool isConstant(const ir::Arg& arg) {
  return !anyPart(arg, [](const ir::Arg& part) { return part.isValue() || isExpression(part); });
}

bool isInt(const ir::Arg& arg) { return arg.kind() == ir::Arg::Kind::Int; }

bool isWhole(const ir::Arg& arg) {  // an integer that may be computed
  return isInt(arg) || arg.kind() == ir::Arg::Kind::SymInt ||
         (arg.isValue() && arg.toValue()->type()->kind == ir::TypeKind::Int);
}

const c10::Type& withoutOptional(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? *type.expectRef<c10::OptionalType>().getElementType() : type;
}

bool isIntType(const c10::Type& type) {
  return type.kind() == c10::TypeKind::IntType || type.kind() == c10::TypeKind::SymIntType;
}

}  // namespace

void Preparation::prepare() {
  const ir::Graph& graph = made_.graph_;
  made_.cellOf_.assign(graph.valueLimit(), kNone);
  lastUse_.assign(graph.valueLimit(), kNone);
  made_.numbers_ = made_.sizes_.any();
  for (const ir::Value* parameter : graph.top()->parameters()) {
    if (!parameter->tensor()) cellOf(parameter);
  }
  sourceOf_.assign(graph.valueLimit(), nullptr);
  if (made_.views_ == Executable::Views::Direct && !changesLayouts(*graph.top())) findViews(*graph.top());
  noteUses(*graph.top());
  MemoryPlan plan;
  std::vector<Together> together;
  if (made_.views_ == Executable::Views::Direct) {
    together = findTogether(graph, [&](const ir::Node& group) { return codeOf(group)->facts(); });
    plan = planMemory(graph, [&](const ir::Node& group) { return codeOf(group)->inPlace(); }, made_.ending_, together);
  }
  keepSlots(plan);
  translate(*graph.top(), made_.instructions_);
  for (Instruction& at : made_.instructions_) {
    auto group = plan.fused.find(at.node);
    if (group != plan.fused.end()) {
      at.places = group->second.places;
      at.overwrites = group->second.overwrites;
      if (size_t bytes = at.fused->scratchBytes()) {
        at.scratch = static_cast<uint32_t>(plan.workspace.buffers.size());
        plan.workspace.buffers.push_back({bytes, group->second.step, group->second.step});
      }
    }
    auto planned = plan.nodes.find(at.node);
    if (planned == plan.nodes.end()) continue;
    at.into = planned->second.into;
    at.place = static_cast<uint32_t>(planned->second.place);
  }
  for (Instruction& at : made_.instructions_) {
    auto first = std::find_if(together.begin(), together.end(), [&](const Together& t) { return t.first == at.node; });
    if (first != together.end()) at.together = static_cast<uint32_t>(first->count);
  }
  plan.workspace.bytes = arrange(plan.workspace.buffers);
  made_.workspace_ = std::move(plan.workspace);
  made_.end_ = static_cast<uint32_t>(made_.instructions_.size());
  if (made_.views_ == Executable::Views::Direct) keepCalls();
  for (uint32_t i = 0; i < made_.instructions_.size(); ++i) {  // bodies come behind, and may have bodies themselves
    Instruction at = std::move(made_.instructions_[i]);
    addBodies(at);
    made_.instructions_[i] = std::move(at);
  }
  const ir::Node* end = graph.top()->terminator();
  // A recording that is run as far as it goes has no end yet.
  for (const ir::Arg& arg : end ? end->args() : std::span<const ir::Arg>()) {
    made_.returned_.push_back(arg);
    noteNumbers(arg);
  }
  findStale();
  made_.numbers_ |= made_.sizes_.any();
  std::vector<std::shared_ptr<GroupCode>> groups;
  for (const Instruction& at : made_.instructions_) {
    if (at.fused && at.fused->reason().empty()) groups.push_back(at.fused->code());
  }
  if (!groups.empty()) compileSoon(std::move(groups));
}

void Preparation::noteUse(const ir::Value* value, const ir::Node& node) {
  // What is read in a body is read by the node around it that stands where the value does.
  const ir::Node* reader = &node;
  while (reader && reader->region() != value->region()) reader = reader->region()->owner();
  if (reader) lastUse_[value->id()] = reader->id();
}

void Preparation::noteUses(const ir::Region& region) {
  for (const ir::Node* node = region.first(); node; node = node->next()) {
    bool direct = isDirect(*node);
    for (const ir::Use& use : node->operands()) {
      if (!direct) noteUse(use.value, *node);
    }
    // What a view is a view of is read where it is made.
    for (size_t i = 0; direct && i < node->resultCount(); ++i) {
      if (isMade(node->result(i))) noteUse(sourceOf_[node->result(i)->id()], *node);
    }
    for (const ir::Region* body : node->regions()) noteUses(*body);
  }
}

void Preparation::translate(const ir::Region& region, std::vector<Instruction>& into) {
  for (const ir::Node* node = region.first(); node && !node->isReturn(); node = node->next()) {
    Instruction made = translate(*node);
    bool nothing = made.kind == Instruction::Kind::View && made.views.empty();
    if (!nothing) into.push_back(std::move(made));
  }
}

Instruction Preparation::translate(const ir::Node& node) {
  Instruction made;
  made.node = &node;
  if (isDirect(node)) {
    translateViews(made);
    return made;
  }
  if (node.regions().empty()) {
    made.handle = handles_.find(node.op());
    if (made_.views_ == Executable::Views::Direct) made.handle = withTensor(node).value_or(*made.handle);
    const c10::FunctionSchema& schema = made.handle->schema();
    made.arguments.resize(schema.arguments().size());
    for (uint32_t i = 0; i < made.arguments.size(); ++i) {
      const c10::Argument& argument = schema.arguments()[i];
      if (i < node.args().size()) {
        translateArgument(made, i, *argument.real_type());
      } else {
        made.arguments[i] = argument.default_value().value_or(c10::IValue());
      }
    }
  } else {
    translateControl(made);
  }
  for (const ir::Use& use : node.operands()) {
    if (use.value->tensor() && isLast(use.value, node)) made.freed.push_back(use.value->id());
  }
  translateResults(made);
  made_.modes_ |= node.attributes().shown || node.attributes().inferenceToggled;
  made.makes = made.handle && node.operandCount() == 0 && ops::of(&node);
  return made;
}

// Does it give several of its arguments back? PyTorch's wrapper around such a kernel lets go of the arguments before it
// takes the references: someone else must own the tensors until then.
static bool givesReferences(const c10::FunctionSchema& schema) {
  if (schema.returns().size() < 2) return false;
  const c10::AliasInfo* alias = schema.returns()[0].alias_info();
  return alias && alias->isWrite();
}

void Preparation::translateArgument(Instruction& made, uint32_t index, const c10::Type& given) {
  const ir::Node& node = *made.node;
  const ir::Arg& arg = node.arg(index);
  const c10::Type& type = withoutOptional(given);
  if (isConstant(arg)) {
    ConstantArguments constants(made_.objects_);
    made.arguments[index] = aten::argument(arg, given, constants);
    if (made_.views_ != Executable::Views::Direct || !made.arguments[index].isTensor()) return;
    if (std::optional<at::Tensor> cast = castNumber(node, index)) made.arguments[index] = std::move(*cast);
    return;
  }
  noteNumbers(arg);
  if (isTensorValue(arg) && type.kind() == c10::TypeKind::TensorType) {
    size_t uses = 0;
    for (const ir::Use& use : node.operands()) uses += use.value == arg.toValue();
    bool last = uses == 1 && isLast(arg.toValue(), node) && !givesReferences(made.handle->schema());
    made.operands.push_back({index, arg.toValue()->id(), last, kept_[arg.toValue()->id()]});
    return;
  }
  auto cellOfInt = [&](const ir::Arg& part) {
    if (isInt(part)) return kNone;
    return part.isValue() ? cellOf(part.toValue()) : made_.sizes_.flat.add(part.toSym());
  };
  if (isIntType(type) && isWhole(arg)) {
    made.numbers.push_back({index, false, {0}, {cellOfInt(arg)}});
    return;
  }
  if (type.kind() == c10::TypeKind::ListType && arg.isList()) {
    const c10::Type& element = *type.expectRef<c10::ListType>().getElementType();
    bool optional = element.kind() == c10::TypeKind::OptionalType;
    auto all = [&](auto is) {
      for (const ir::Arg& item : arg.toList()) {
        if (!is(item)) return false;
      }
      return true;
    };
    if (withoutOptional(element).kind() == c10::TypeKind::TensorType &&
        all([](const ir::Arg& item) { return isTensorValue(item) || item.isNone(); })) {
      ListOperand operand{index, optional, {}};
      for (const ir::Arg& item : arg.toList()) operand.slots.push_back(item.isValue() ? item.toValue()->id() : kNone);
      made.lists.push_back(std::move(operand));
      return;
    }
    if (isIntType(element) && all(isWhole)) {
      NumberOperand operand{index, true, {}, {}};
      for (const ir::Arg& item : arg.toList()) {
        operand.numbers.push_back(isInt(item) ? item.toInt() : 0);
        operand.cells.push_back(cellOfInt(item));
      }
      made.numbers.push_back(std::move(operand));
      return;
    }
  }
  made.converted.push_back(index);
}

// What an argument is computed from has a cell.
void Preparation::noteNumbers(const ir::Arg& arg) {
  anyPart(arg, [&](const ir::Arg& part) {
    if (isExpression(part)) made_.sizes_.flat.add(part.toSym());
    if (part.isValue() && !part.toValue()->tensor()) cellOf(part.toValue());
    return false;
  });
}

void Preparation::translateControl(Instruction& made) {
  const ir::Node& node = *made.node;
  if (ops::isIf(node) || ops::isCall(node)) {
    made.kind = Instruction::Kind::If;
  } else if (ops::isLoop(node)) {
    made.kind = Instruction::Kind::Loop;
  } else if (ops::isWhile(node)) {
    made.kind = Instruction::Kind::While;
  } else if (ops::isWhileBackward(node)) {
    made.kind = Instruction::Kind::WhileBackward;
  } else if (ops::isScan(node)) {
    made.kind = Instruction::Kind::Scan;
  } else if (ops::isGroup(node)) {
    translateFused(made);
  } else {
    throw std::runtime_error(node.op()->qualified + " has bodies, and nothing is known of how to run them");
  }
  for (const ir::Arg& arg : node.args()) noteNumbers(arg);
  for (const ir::Region* body : node.regions()) {
    for (const ir::Value* parameter : body->parameters()) {
      if (!parameter->tensor()) cellOf(parameter);
    }
    for (const ir::Arg& arg : body->terminator()->args()) noteNumbers(arg);
  }
}

std::shared_ptr<const FusedCode> Preparation::codeOf(const ir::Node& group) {
  std::shared_ptr<const FusedCode>& code = codes_[&group];
  if (!code) code = std::make_shared<const FusedCode>(group, made_.sizes_);
  return code;
}

void Preparation::translateFused(Instruction& made) {
  made.kind = Instruction::Kind::Fused;
  made.fused = codeOf(*made.node);
  made.places.assign(made.node->resultCount(), kNone);
  made.overwrites = made.places;
  uint32_t number = 0;
  for (const ir::Use& use : made.node->operands()) {
    made.operands.push_back({number, use.value->id(), false});
    if (use.value->isParameter()) made.checked.push_back(number);
    ++number;
  }
  const ir::Region& body = *made.node->regions()[0];
  std::span<const ir::Arg> returned = body.terminator()->args();
  for (const ir::Node* node = body.first(); node && !node->isReturn(); node = node->next()) {
    if (!node->attributes().shown) continue;
    ops::eachWritten(*node, [&](const ir::Value* written) {
      if (written->isParameter()) return made.counted.push_back({false, written->index()});
      for (uint32_t i = 0; i < returned.size(); ++i) {
        if (returned[i].toValue() == written) return made.counted.push_back({true, i});
      }
    });
  }
}

// Behind everything that was translated so far.
void Preparation::addBodies(Instruction& made) {
  if (made.kind == Instruction::Kind::Call) return;
  for (const ir::Region* region : made.node->regions()) {
    Body body;
    body.begin = static_cast<uint32_t>(made_.instructions_.size());
    translate(*region, made_.instructions_);
    body.end = static_cast<uint32_t>(made_.instructions_.size());
    body.parameters.assign(region->parameters().begin(), region->parameters().end());
    std::span<const ir::Arg> returned = region->terminator()->args();
    body.returned.assign(returned.begin(), returned.end());
    for (const ir::Value* parameter : body.parameters) {
      if (parameter->tensor()) body.own.push_back(parameter->id());
    }
    for (const ir::Arg& arg : returned) {
      if (!arg.isValue() || !arg.toValue()->tensor() || arg.toValue()->region() != region) continue;
      body.own.push_back(arg.toValue()->id());
    }
    made.bodies.push_back(std::move(body));
  }
}

// A body that runs again finds other sizes, but for those that inputs tell. A group that is not in a loop runs once.
void Preparation::findStale() {
  std::vector<uint32_t> numbers;
  for (const ir::Value* parameter : made_.graph_.top()->parameters()) {
    if (!parameter->tensor()) numbers.push_back(made_.cellOf_[parameter->id()]);
  }
  auto isTold = [&](uint32_t cell) {
    return made_.sizes_.isBound(cell) || std::find(numbers.begin(), numbers.end(), cell) != numbers.end();
  };
  for (uint32_t at = 0; at < made_.instructions_.size(); ++at) {
    if (at < made_.end_ && made_.instructions_[at].kind == Instruction::Kind::Fused) continue;
    for (Body& body : made_.instructions_[at].bodies) {
      std::vector<uint32_t> bound;
      for (uint32_t i = body.begin; i < body.end; ++i) {
        for (const Result& result : made_.instructions_[i].results) {
          for (const auto& [dimension, cell] : result.binds) bound.push_back(cell);
        }
      }
      std::erase_if(bound, isTold);
      if (!bound.empty()) body.stale = made_.sizes_.flat.dependents(bound);
    }
  }
}

// A number that arguments name by its symbol.
static bool isNamed(const ir::Value* value) {
  const ir::ScalarType* type = ir::asScalar(value->type());
  return type && type->expression && type->expression->isSymbol();
}

void Preparation::translateResults(Instruction& made) {
  const ir::Node& node = *made.node;
  std::vector<bool> fresh(node.resultCount());
  if (made.handle) {
    const std::vector<c10::Argument>& returns = made.handle->schema().returns();
    size_t index = 0;
    for (const c10::Argument& each : returns) {
      bool list = each.type()->kind() == c10::TypeKind::ListType;
      size_t count = list ? node.resultCount() - (returns.size() - 1) : 1;
      for (size_t k = 0; k < count && index < node.resultCount(); ++k) fresh[index++] = !each.alias_info();
    }
  }
  bool foreign = made.handle && !ops::of(&node);
  for (size_t i = 0; i < node.resultCount(); ++i) {
    const ir::Value* value = node.result(i);
    Result result;
    result.value = value;
    result.fresh = fresh[i];
    result.foreign = foreign;
    result.tensor = value->tensor();
    if (result.tensor) {
      if (value->hasUses()) result.slot = value->id();
      result.told = made_.sizes_.tell(*value->tensor());
      for (size_t d = 0; value->tensor()->symbolic && d < value->tensor()->rank; ++d) {
        const sym::Node* size = value->tensor()->size(d).node();
        if (!size || size->kind != sym::Kind::Symbol) continue;
        result.binds.emplace_back(static_cast<uint32_t>(d), made_.sizes_.flat.add(size));
      }
    } else if (value->hasUses() || isNamed(value)) {
      result.cell = cellOf(value);
    }
    made.results.push_back(std::move(result));
  }
}

// Of a value that is a number: that of its expression, or one of its own.
uint32_t Preparation::cellOf(const ir::Value* value) {
  uint32_t& cell = made_.cellOf_[value->id()];
  if (cell != kNone) return cell;
  made_.numbers_ = true;
  const ir::ScalarType* type = ir::asScalar(value->type());
  return cell = type && type->expression ? made_.sizes_.flat.add(type->expression) : made_.sizes_.flat.addCell();
}

}  // namespace saker::runtime
