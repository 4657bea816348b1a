// Fused groups in a run.
#include <ATen/ops/empty_strided.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/variable.h>

#include "aten/enums.h"
#include "runtime/executable.h"

namespace saker::runtime {

// Its slot and a list of operands have the tensor. Where a view or somebody outside has it too, or where it is not what
// a fresh result would be, it stays as it is.
static bool mayBecomeResult(const at::Tensor& operand) {
  return operand.use_count() == 2 && operand.storage().use_count() == 1 && !operand.requires_grad() &&
         operand.storage().nbytes() == operand.nbytes() && (operand.is_inference() || operand._version() == 0);
}

// Launches the kernels of a group. False: there is no code yet, or somebody wants to see the operators, or a tensor
// lies otherwise than told, or one of the operators would raise.
bool Run::launch(const Instruction& at) {
  const FusedCode& code = *at.fused;
  if (!code.isReady() || (conduct_ && !conduct_->mayLaunch()) || freely_) return false;
  for (uint32_t i : at.checked) {
    const at::Tensor& operand = slots_[at.operands[i].slot];
    if (!sizes_.sameStrides(code.operands()[i], operand)) return false;
  }
  c10::SmallVector<at::Tensor, 8> operands, results;
  for (const Operand& operand : at.operands) operands.push_back(slots_[operand.slot]);
  for (size_t i = 0; i < at.results.size(); ++i) {
    if (at.places[i] != kNone) {
      results.push_back(workspace_->at(at.places[i]));
      continue;
    }
    if (at.overwrites[i] != kNone && mayBecomeResult(operands[at.overwrites[i]])) {
      results.push_back(operands[at.overwrites[i]]);
      continue;
    }
    const Result& result = at.results[i];
    at::TensorOptions options = at::TensorOptions(aten::fromDType(result.value->tensor()->dtype));
    if (result.told.cells.empty()) {
      results.push_back(at::empty_strided(result.told.numbers.sizes, result.told.numbers.strides, options));
    } else {
      Geometry told = sizes_.geometry(result.told);
      results.push_back(at::empty_strided(told.sizes, told.strides, options));
    }
  }
  void* scratch = at.scratch == kNone ? nullptr : workspace_->memory(at.scratch);
  if (!code.launch(operands, results, sizes_, workspace_.get(), scratch)) return false;
  for (const Instruction::Counted& counted : at.counted) {
    const at::Tensor& written = counted.result ? results[counted.number] : operands[counted.number];
    if (!written.is_inference()) torch::autograd::impl::bump_version(written);
  }
  operands.clear();
  for (uint32_t slot : at.freed) slots_[slot].reset();
  for (size_t i = 0; i < at.results.size(); ++i) {
    if (at.results[i].slot != kNone) slots_[at.results[i].slot] = std::move(results[i]);
  }
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
