// Views whose layouts are told when a graph is prepared: an instruction makes all of them at once, without an operator.
#include <algorithm>

#include "aten/enums.h"
#include "ops/effects.h"
#include "ops/group.h"
#include "ops/operator.h"
#include "runtime/prepare.h"

namespace saker::runtime {

// The value that a node gives views of in told layouts, if that is all it does. A caller that sees such a view, or its
// version, sees one that PyTorch has made.
static const ir::Value* viewedBy(const ir::Node& node) {
  const ops::Operator* op = ops::of(&node);
  ir::Attributes recorded = node.attributes();
  if (!op || op->writes || op->has(ops::kMayAlias) || node.resultCount() == 0) return nullptr;
  if (!node.regions().empty()) return nullptr;
  if (recorded.shown || recorded.inferenceToggled || recorded.ownVersion) return nullptr;
  const ir::Value* base = nullptr;
  for (size_t i = 0; i < op->parsed.returns.size(); ++i) {
    if (op->parsed.returns[i].alias.empty()) return nullptr;
  }
  for (const ir::Arg& arg : node.args()) {
    if (!arg.isValue() || !arg.toValue()->tensor()) continue;
    if (base) return nullptr;  // of two tensors, one may tell the sizes alone
    base = arg.toValue();
  }
  if (!base) return nullptr;
  const ir::TensorType& from = *base->tensor();
  if (c10::isQIntType(aten::fromDType(from.dtype))) return nullptr;  // with a quantizer of its own
  for (size_t i = 0; i < node.resultCount(); ++i) {
    const ir::TensorType* to = node.result(i)->tensor();
    bool same = to && to->dtype == from.dtype && to->device == from.device && to->layout == from.layout &&
                to->flags.conj == from.flags.conj && to->flags.neg == from.flags.neg;
    if (!same) return nullptr;
  }
  return base;
}

void Preparation::noteViewed(const ir::Value* value) {
  if (!value || !value->isParameter()) return;
  if (value->region() != made_.graph_.top()) {
    // A body's parameter lies as what it stands for: a group's as its operand, others' as one of them.
    const ir::Node& owner = *value->region()->owner();
    if (ops::isGroup(owner)) return noteViewed(owner.operand(value->index()));
    for (const ir::Use& use : owner.operands()) noteViewed(use.value);
    return;
  }
  std::vector<uint32_t>& all = made_.viewed_;
  if (std::find(all.begin(), all.end(), value->index()) == all.end()) all.push_back(value->index());
}

// A tensor whose layout is changed in place is seen in the new one under its old name too.
bool Preparation::changesLayouts(const ir::Region& region) {
  for (const ir::Node* node = region.first(); node && !node->isReturn(); node = node->next()) {
    for (const ir::Region* body : node->regions()) {
      if (changesLayouts(*body)) return true;
    }
    if (node->regions().empty() && handles_.find(node->op()).hasTag(at::Tag::inplace_view)) return true;
  }
  return false;
}

// Views whose layouts are told, and what they are views of in the end. Nobody outside sees them.
void Preparation::findViews(const ir::Region& region) {
  for (const ir::Node* node = region.first(); node; node = node->next()) {
    for (const ir::Region* body : node->regions()) findViews(*body);
    for (size_t i = 0; ops::of(node) && i < node->resultCount(); ++i) noteViewed(ops::sharedArgument(node->result(i)));
    const ir::Value* base = viewedBy(*node);
    if (!base) continue;
    const ir::Value* source = sourceOf_[base->id()];
    for (size_t i = 0; i < node->resultCount(); ++i) sourceOf_[node->result(i)->id()] = source ? source : base;
  }
}

bool Preparation::isDirect(const ir::Node& node) const {
  return node.resultCount() > 0 && sourceOf_[node.result(0)->id()] != nullptr;
}

// Does anything but other views read it?
bool Preparation::isMade(const ir::Value* view) const {
  for (const ir::Use* use = view->firstUse(); use; use = use->next) {
    if (!isDirect(*use->user)) return true;
  }
  return false;
}

void Preparation::translateViews(Instruction& made) {
  made.kind = Instruction::Kind::View;
  for (size_t i = 0; i < made.node->resultCount(); ++i) {
    const ir::Value* view = made.node->result(i);
    if (!isMade(view)) continue;
    const ir::Value* source = sourceOf_[view->id()];
    std::vector<DirectView>& views = kept_[view->id()] ? made_.keptViews_ : made.views;
    views.push_back(
        {view->id(), source->id(), made_.sizes_.tell(*view->tensor()), made_.sizes_.tell(*source->tensor())});
    // All are views of one source.
    if (isLast(source, *made.node) && made.freed.empty()) made.freed.push_back(source->id());
  }
}

}  // namespace saker::runtime
