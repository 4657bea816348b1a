// Fused groups in a run.
#include <ATen/ops/empty_strided.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/variable.h>

#include "aten/enums.h"
#include "runtime/executable.h"

namespace saker::runtime {

// Its slot and a list of operands have the tensor. Where a view or somebody outside has it too, it stays as it is; an
// input may also lie in memory that is not PyTorch's.
static bool mayBeOverwritten(const at::Tensor& operand, bool input) {
  if (operand.use_count() != 2 || operand.storage().use_count() != 1 || operand.requires_grad()) return false;
  if (input && operand.storage().data_ptr().get_deleter() != c10::GetCPUAllocator()->raw_deleter()) return false;
  return operand.storage().nbytes() == operand.nbytes();
}

// Another tensor over its memory.
static at::Tensor inPlaceOf(const at::Tensor& operand, const Geometry& told) {
  at::Tensor made =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(operand.storage()), operand.key_set(), operand.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(told.sizes, told.strides, 0);
  return made;
}

// What the kernels of one group read and give.
struct Run::Group {
  c10::SmallVector<at::Tensor, 8> operands, results;
};

// False: there is no code yet, or somebody wants to see the operators, or a tensor lies otherwise than told.
bool Run::mayLaunch(const Instruction& at) {
  const FusedCode& code = *at.fused;
  if (!code.isReady() || (conduct_ && !conduct_->mayLaunch()) || freely_) return false;
  for (uint32_t i : at.checked) {
    const at::Tensor& operand = slots_[at.operands[i].slot];
    if (!sizes_.sameStrides(code.operands()[i], operand)) return false;
  }
  return true;
}

void Run::prepare(const Instruction& at, Group& group) {
  for (const Operand& operand : at.operands) group.operands.push_back(slots_[operand.slot]);
  for (size_t i = 0; i < at.results.size(); ++i) {
    if (at.places[i] != kNone) {
      group.results.push_back(workspace_->at(at.places[i]));
      continue;
    }
    const Result& result = at.results[i];
    const uint32_t taken = at.overwrites[i];
    if (taken != kNone && mayBeOverwritten(group.operands[taken], at.node->operand(taken)->isParameter())) {
      group.results.push_back(inPlaceOf(group.operands[taken], result.told.numbers));
      continue;
    }
    at::TensorOptions options = at::TensorOptions(aten::fromDType(result.value->tensor()->dtype));
    if (result.told.cells.empty()) {
      group.results.push_back(at::empty_strided(result.told.numbers.sizes, result.told.numbers.strides, options));
    } else {
      Geometry told = sizes_.geometry(result.told);
      group.results.push_back(at::empty_strided(told.sizes, told.strides, options));
    }
  }
}

void Run::finish(const Instruction& at, Group& group) {
  for (const Instruction::Counted& counted : at.counted) {
    const at::Tensor& written = counted.result ? group.results[counted.number] : group.operands[counted.number];
    if (!written.is_inference()) torch::autograd::impl::bump_version(written);
  }
  group.operands.clear();
  for (uint32_t slot : at.freed) slots_[slot].reset();
  for (size_t i = 0; i < at.results.size(); ++i) {
    if (at.results[i].slot != kNone) slots_[at.results[i].slot] = std::move(group.results[i]);
  }
}

// Launches the kernels of a group. False: its operators are to be called; one of them would raise, or see mayLaunch.
bool Run::launch(const Instruction& at) {
  if (!mayLaunch(at)) return false;
  Group group;
  prepare(at, group);
  void* scratch = at.scratch == kNone ? nullptr : workspace_->memory(at.scratch);
  if (!at.fused->launch(group.operands, group.results, sizes_, workspace_.get(), scratch)) return false;
  finish(at, group);
  return true;
}

// The same of groups that run as one. Nothing is let go before all have run: another one may be given that memory.
bool Run::launchTogether(uint32_t first) {
  const uint32_t count = executable_.instructions_[first].together;
  std::span<const Instruction> all(executable_.instructions_.data() + first, count);
  if (guardPages() != GuardPages::Off) return false;
  for (const Instruction& at : all) {
    if (!mayLaunch(at) || !at.fused->hasNumbers(sizes_)) return false;
  }
  Launches launches;
  std::vector<Group> groups(count);
  for (uint32_t i = 0; i < count; ++i) {
    prepare(all[i], groups[i]);
    all[i].fused->addTo(launches, groups[i].operands, groups[i].results, sizes_);
  }
  FusedCode::launchTogether(launches);
  for (uint32_t i = 0; i < count; ++i) finish(all[i], groups[i]);
  return true;
}

void Run::fused(const Instruction& at) {
  if (launch(at)) return;
  const Body& body = at.bodies[0];
  std::vector<c10::IValue> values;
  for (const Operand& operand : at.operands) values.emplace_back(slots_[operand.slot]);
  enter(body, 0, values);
  runRange(body.begin, body.end);
  values = leave(body);
  setResults(at, values);
}

}  // namespace saker::runtime
