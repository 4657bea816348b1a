#include "lower/can_lower.h"

#include "kernel/verify.h"
#include "lower/builder.h"
#include "ops/effects.h"
#include "ops/operator.h"
#include "symbolic/context.h"

namespace saker::lower {
namespace {

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

std::string badTensor(const ir::Value* value) {
  const ir::TensorType* type = value->tensor();
  if (!type) return "an argument or result is no tensor";
  if (type->layout != ir::Layout::Strided) return "a tensor without strides";
  if (type->device.type != ir::DeviceType::CPU) return "a tensor that is not on the CPU";
  if (type->flags.conj || type->flags.neg) return "a conj or neg bit";
  for (Int size : type->sizes()) {
    if (size.isConst(0)) return "a tensor without elements";
  }
  if (!kernel::isKnown(type->dtype)) return "dtype " + std::string(ir::name(type->dtype));
  return {};
}

// Asks the rule for the element at the first place.
std::string tryRule(const ir::Node& node, const ops::Operator& op) {
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
    for (int attempt = 0; attempt < 16; ++attempt) {
      try {
        KernelBuilder builder(context, operands, axes);
        builder.store(result, ir::Dims(result->tensor()->strides()));
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

}  // namespace

Answer partOf(const ir::Node& node) {
  const ops::Operator* op = ops::of(&node);
  if (!op) return {Part::Library, node.op()->qualified + " is not in the table"};
  if (!op->element) return {Part::Library, node.op()->qualified + " is a library call"};
  if (ops::writes(node) || !node.regions().empty()) return {Part::Library, node.op()->qualified + " writes"};
  for (const ir::Use& use : node.operands()) {
    if (std::string bad = badTensor(use.value); !bad.empty()) return {Part::Library, bad};
  }
  bool any = false, shares = false;
  for (size_t i = 0; i < node.resultCount(); ++i) {
    if (!node.result(i)->hasUses()) continue;
    if (std::string bad = badTensor(node.result(i)); !bad.empty()) return {Part::Library, bad};
    any = true;
    shares |= ops::sharing(node, i) != ops::Sharing::None;
  }
  if (!any) return {Part::Library, "nobody reads its results"};
  std::string reason;
  try {
    reason = tryRule(node, *op);
  } catch (const ops::NotLowered& why) {
    reason = why.reason;
  } catch (const ops::RefusalException& why) {
    reason = why.refusal.message;
  } catch (const std::exception& why) {
    reason = why.what();
  }
  if (!reason.empty()) return {Part::Library, op->qualified + ": " + reason};
  return {shares || op->cost == ops::Cost::Fill ? Part::Free : Part::Computed, {}};
}

}  // namespace saker::lower
