// What stays from run to run: slots of planned values, and calls of kernels that were prepared once.
#include <ATen/EmptyTensor.h>

#include "aten/enums.h"
#include "aten/kept_call.h"
#include "codegen/target.h"
#include "ops/operator.h"
#include "runtime/executable.h"
#include "runtime/plain_type.h"
#include "runtime/prepare.h"
#include "runtime/prepared.h"

namespace saker::runtime {

// --- before all runs ---

// Planned values and views of them lie in the workspace: no run makes them, and none lets go of them.
void Preparation::keepSlots(const MemoryPlan& plan) {
  const ir::Region& top = *made_.graph_.top();
  kept_.assign(made_.graph_.valueLimit(), false);
  for (const ir::Node* node = top.first(); node && !node->isReturn(); node = node->next()) {
    auto planned = plan.nodes.find(node);
    if (planned == plan.nodes.end()) continue;
    made_.keptSlots_.emplace_back(node->result()->id(), static_cast<uint32_t>(planned->second.place));
    kept_[node->result()->id()] = true;
  }
  for (const ir::Node* node = top.first(); node && !node->isReturn(); node = node->next()) {
    if (!isDirect(*node) || !kept_[sourceOf_[node->result(0)->id()]->id()]) continue;
    for (size_t i = 0; i < node->resultCount(); ++i) {
      const ir::TensorType& type = *node->result(i)->tensor();
      if (!type.symbolic) kept_[node->result(i)->id()] = true;
    }
  }
  for (size_t i = 0; i < kept_.size(); ++i) {
    if (kept_[i]) lastUse_[i] = kNone;
  }
}

// One plain new tensor, of a layout that is known.
static bool givesOne(const Instruction& at) {
  if (at.results.size() != 1) return false;
  const Result& result = at.results[0];
  if (!result.tensor || result.slot == kNone || !result.fresh || result.foreign) return false;
  if (!result.told.cells.empty() || !result.binds.empty()) return false;
  const ir::TensorType& type = *result.value->tensor();
  return type.device == ir::Device{} && isPlainType(type);
}

void Preparation::keepCalls() {
  using Products = aten::KeptKernel::Products;
  bool fastest = made_.native_.wanted && !keepsAllBits(made_.native_) &&
                 codegen::hostTarget() == codegen::Target::Avx512;  // SAKER_CPU may forbid it
  for (uint32_t i = 0; i < made_.end_; ++i) {
    Instruction& at = made_.instructions_[i];
    if (at.kind != Instruction::Kind::Call || !at.lists.empty() || !at.numbers.empty() || !at.converted.empty())
      continue;
    const ops::Operator* op = ops::of(at.node);
    ir::Attributes recorded = at.node->attributes();
    if (!op || op->writes || recorded.shown || recorded.inferenceToggled || !givesOne(at)) continue;
    at.kernel = aten::KeptKernel::find(*at.handle, fastest ? Products::Fastest : Products::Eager);
    if (at.kernel) at.kept = static_cast<uint32_t>(made_.workspace_.calls++);
  }
  for (uint32_t i = 0; i < made_.graph_.valueLimit(); ++i) {
    if (i >= kept_.size() || !kept_[i]) made_.otherSlots_.push_back(i);
  }
}

// --- in a run ---

void Run::fillKeptSlots() {
  slots_.resize(executable_.graph_.valueLimit());
  for (const auto& [slot, place] : executable_.keptSlots_) slots_[slot] = workspace_->at(place);
  for (const DirectView& view : executable_.keptViews_) makeView(view);
}

std::unique_ptr<aten::KeptCall> Run::prepareKept(const Instruction& at) {
  std::vector<aten::KeptTensor> tensors(at.arguments.size());
  for (const Operand& operand : at.operands) tensors[operand.argument] = {&slots_[operand.slot], operand.fixed};
  return at.kernel->prepare({at.arguments, tensors, {&slots_[at.results[0].slot], at.into.has_value()}});
}

// False: the operator is to be called.
bool Run::callKept(const Instruction& at) {
  Workspace::Kept& kept = workspace_->calls[at.kept];
  if ((kept.tried && !kept.call) || !at.kernel->isCurrent()) return false;
  const Result& result = at.results[0];
  if (!at.into) {
    const Geometry& told = result.told.numbers;
    slots_[result.slot] =
        at::detail::empty_strided_cpu(told.sizes, told.strides, aten::fromDType(result.value->tensor()->dtype));
  }
  if (!kept.call) {
    kept.tried = true;
    kept.call = prepareKept(at);
    if (!kept.call) return false;
  }
  if (!kept.call->run()) return false;
  if (kept.call->spent()) kept.call.reset();
  for (uint32_t slot : at.freed) slots_[slot].reset();
  return true;
}

}  // namespace saker::runtime
