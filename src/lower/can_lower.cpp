#include "lower/can_lower.h"

#include <algorithm>

#include "ir/copy_arg.h"
#include "kernel/verify.h"
#include "lower/builder.h"
#include "lower/without_writes.h"
#include "ops/effects.h"
#include "ops/operator.h"
#include "ops/shape.h"
#include "symbolic/context.h"

namespace saker::lower {
namespace {

constexpr int kAttempts = 16;

// All operands lie in memory.
class Operands final : public KernelBuilder::Source {
 public:
  explicit Operands(const ir::Node& node) : node_(node) {}
  std::optional<ir::Dims> strides(const ir::Value* value) const override {
    return value->def() == &node_ ? std::nullopt : std::optional(ir::Dims(value->tensor()->strides()));
  }

 private:
  const ir::Node& node_;
};

// Its elements may be none: a rule that reads them is refused when it does.
std::string badOperand(const ir::Value* value) {
  const ir::TensorType* type = value->tensor();
  if (!type) return "an argument or result is no tensor";
  if (type->layout != ir::Layout::Strided) return "a tensor without strides";
  if (type->device.type != ir::DeviceType::CPU) return "a tensor that is not on the CPU";
  if (type->flags.conj || type->flags.neg) return "a conj or neg bit";
  if (!kernel::isKnown(type->dtype)) return "dtype " + std::string(ir::name(type->dtype));
  return {};
}

std::string badTensor(const ir::Value* value) {
  if (std::string bad = badOperand(value); !bad.empty()) return bad;
  for (Int size : value->tensor()->sizes()) {
    if (size.isConst(0)) return "a tensor without elements";
  }
  return {};
}

// Does an operator look for elements by their places in memory? A group stores nothing beside those of the tensor.
bool isReadByPlace(const ir::Value* value) {
  for (const ir::Use* use = value->firstUse(); use; use = use->next) {
    const ops::Operator* op = ops::of(use->user);
    if (op && op->parsed.indexOf("storage_offset")) return true;
    for (size_t i = 0; i < use->user->resultCount(); ++i) {
      const ir::Value* view = use->user->result(i);
      if (ops::sharedArgument(view) == value && isReadByPlace(view)) return true;
    }
  }
  return false;
}

// A result of its own begins where its memory does, and has nothing around it.
std::string badResult(const ir::Node& node, size_t i) {
  const ir::Value* value = node.result(i);
  if (std::string bad = badTensor(value); !bad.empty()) return bad;
  if (ops::sharing(node, i) != ops::Sharing::None) return {};
  if (!value->tensor()->offset.isConst(0)) return "a result that does not begin where its memory does";
  return isReadByPlace(value) ? "a result whose memory is read by place" : std::string();
}

// The same of what puts elements at places that are data.
bool trySteps(const ops::Infer& arguments, const Operands& operands, const ir::Value* result, bool toTheBit) {
  const ir::TensorType& type = *result->tensor();
  if (!ops::surelyApart(type) && !ops::isRowMajor(type)) return false;
  ops::Steps steps = ops::putRuleOf(&arguments.op())->steps(arguments);
  Space space;
  space.sizes = steps.sizes;
  space.ordered = steps.ordered;
  Axes axes(space);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    try {
      KernelBuilder(arguments.context(), operands, axes, toTheBit).put(result, ir::Dims(type.strides()));
      return true;
    } catch (const Split& split) {
      axes.split(split);
    }
  }
  ops::notLowered("too many ways to split its loops");
}

bool callsFunctions(const Expressions& expressions) {
  for (uint32_t i = 0; i < expressions.size(); ++i) {
    if (expressions[i].node.op >= kernel::Op::Exp) return true;
  }
  return false;
}

// Asks the rule for the element at the first place.
std::string tryRule(const ir::Node& node, const ops::Operator& op, bool toTheBit, bool& cheap) {
  ir::Context& context = node.region()->graph()->context();
  Operands operands(node);
  for (size_t i = 0; i < node.resultCount(); ++i) {
    const ir::Value* result = node.result(i);
    if (!result->tensor() || !result->hasUses()) continue;
    Space space;
    space.sizes = ir::Dims(result->tensor()->sizes());
    ops::Inferred unused;
    ops::Infer arguments(op, context, node.args(), unused);
    if (op.along) {
      if (std::optional<ops::Along> along = op.along(arguments, i)) space = spaceOf(*along);
    }
    Axes axes(space);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      try {
        KernelBuilder builder(context, operands, axes, toTheBit);
        builder.store(result, ir::Dims(result->tensor()->strides()));
        cheap &= !callsFunctions(builder.expressions());
        if (ops::putRuleOf(&op) && !trySteps(arguments, operands, result, toTheBit)) {
          return "elements that are not surely apart";
        }
        break;
      } catch (const Split& split) {
        axes.split(split);
      } catch (const NeedsMemory&) {
        return "a reduction that its own rule reads at another place";
      }
    }
  }
  return {};
}

// A call that writes to a tensor: what it computes is asked of the calls that it is without the write.
Answer partOfStore(const ir::Node& node, bool toTheBit) {
  if (std::string why = whyNotAStore(node); !why.empty()) return {Part::Library, why};
  ir::Graph scratch(node.region()->graph()->sharedContext());
  std::vector<ir::Arg> operands;
  std::vector<const ir::Value*> known;
  for (const ir::Use& use : node.operands()) {
    if (std::string bad = badTensor(use.value); !bad.empty()) return {Part::Library, bad};
    if (std::find(known.begin(), known.end(), use.value) != known.end()) continue;
    known.push_back(use.value);
    operands.push_back(ir::Arg::value(scratch.addParameter(scratch.top(), use.value->type())));
  }
  static const ops::Operator* fused = ops::find("saker::fused");
  ir::Node* group = scratch.append(scratch.top(), fused, operands, {});
  ir::Region* body = scratch.addRegion(group);
  std::vector<ir::Value*> inside;
  for (const ir::Arg& operand : operands) inside.push_back(scratch.addParameter(body, operand.toValue()->type()));
  SmallVec<ir::Arg, 8> args(node.args());
  Arena arena;
  std::vector<ir::Value*> values(node.region()->graph()->valueLimit());
  for (size_t i = 0; i < known.size(); ++i) values[known[i]->id()] = inside[i];
  for (ir::Arg& arg : args) arg = ir::copyArg(arg, values, arena);
  const ir::Type* type = node.result()->type();
  scratch.append(body, node.op(), args, {&type, 1}, node.origin());
  scratch.appendReturn(body, {});
  WithoutWrites alone = withoutWrites(*group);
  if (!alone.group) return {Part::Library, alone.reason};
  const ir::Region& computed = *alone.group->regions()[0];
  for (const ir::Node* each = computed.first(); !each->isReturn(); each = each->next()) {
    if (Answer answer = partOf(*each, toTheBit); answer.part == Part::Library) return answer;
  }
  return {Part::Computed, {}};
}

}  // namespace

Answer partOf(const ir::Node& node, bool toTheBit) {
  const ops::Operator* op = ops::of(&node);
  if (!op) return {Part::Library, node.op()->qualified + " is not in the table"};
  if (ops::writes(node)) return partOfStore(node, toTheBit);
  if (!op->element) return {Part::Library, node.op()->qualified + " is a library call"};
  if (!node.regions().empty()) return {Part::Library, node.op()->qualified + " has bodies"};
  if (node.attributes().inferenceToggled || node.attributes().ownVersion) {
    return {Part::Library, node.op()->qualified + " runs in another mode"};
  }
  for (const ir::Use& use : node.operands()) {
    if (std::string bad = badOperand(use.value); !bad.empty()) return {Part::Library, bad};
  }
  bool any = false, shares = false;
  for (size_t i = 0; i < node.resultCount(); ++i) {
    if (!node.result(i)->hasUses()) continue;
    if (std::string bad = badResult(node, i); !bad.empty()) return {Part::Library, bad};
    any = true;
    shares |= ops::sharing(node, i) != ops::Sharing::None;
  }
  if (!any) return {Part::Library, "nobody reads its results"};
  std::string reason;
  bool cheap = true;
  try {
    reason = tryRule(node, *op, toTheBit, cheap);
  } catch (const ops::NotLowered& why) {
    reason = why.reason;
  } catch (const ops::RefusalException& why) {
    reason = why.refusal.message;
  } catch (const std::exception& why) {
    reason = why.what();
  }
  if (!reason.empty()) return {Part::Library, op->qualified + ": " + reason};
  return {shares || op->cost == ops::Cost::Fill ? Part::Free : Part::Computed, {}, cheap};
}

}  // namespace saker::lower
