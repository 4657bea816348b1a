#include "runtime/fused.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <optional>

#include "aten/enums.h"

namespace saker::runtime {

namespace {

// What a task is worth starting for, in lines of kernels times elements: about 20 us.
constexpr int64_t kWorkOfTask = 200'000;

std::atomic<uint64_t> launches = 0;

Known knownOf(const sym::Int& value, SizePlan& sizes) {
  if (value.isConst()) return {value.constant(), kNone};
  return {0, sizes.flat.add(value.node())};
}

}  // namespace

FusedCode::FusedCode(const ir::Node& group, SizePlan& sizes, const codegen::Options& options)
    : code_(std::make_shared<GroupCode>()) {
  code_->options = options;
  lower::Lowered lowered = lower::lower(group);
  reason_ = lowered.reason;
  if (!lowered.ok()) return;
  for (lower::Launch& from : lowered.launches) {
    Launch launch;
    launch.buffers = std::move(from.buffers);
    for (const sym::Int& argument : from.arguments) launch.arguments.push_back(knownOf(argument, sizes));
    launch.steps = knownOf(from.steps, sizes);
    launch.work = knownOf(from.work, sizes);
    launches_.push_back(std::move(launch));
    code_->kernels.push_back(std::move(from.kernel));
  }
  for (const lower::Temporary& from : lowered.temporaries) {
    temporaries_.push_back({aten::fromDType(from.dtype), knownOf(from.elements, sizes)});
  }
  for (const ir::Use& use : group.operands()) operands_.push_back(sizes.tell(*use.value->tensor()));
}

void* FusedCode::pointer(const at::Tensor& tensor, bool written, GuardedBuffers* guarded) {
  if (guarded) return guarded->add(tensor, written);
  return written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
}

uint64_t FusedCode::launched() { return launches.load(std::memory_order_relaxed); }

bool FusedCode::launch(std::span<const at::Tensor> operands, std::span<const at::Tensor> results, Sizes& sizes) const {
  c10::SmallVector<at::Tensor, 4> temporaries;
  for (const Temporary& each : temporaries_) {
    temporaries.push_back(at::empty({each.elements.in(sizes)}, at::TensorOptions(each.dtype)));
  }
  launches.fetch_add(launches_.size(), std::memory_order_relaxed);
  bool raises = false;
  c10::SmallVector<void*, 16> pointers;
  c10::SmallVector<int64_t, 16> arguments;
  GuardPages guards = guardPages();
  for (size_t i = 0; i < launches_.size(); ++i) {
    const Launch& each = launches_[i];
    pointers.clear();
    arguments.clear();
    std::optional<GuardedBuffers> guarded;
    if (guards != GuardPages::Off) guarded.emplace(guards);
    GuardedBuffers* beside = guarded ? &*guarded : nullptr;
    for (size_t k = 0; k < each.buffers.size(); ++k) {
      const lower::Operand& buffer = each.buffers[k];
      switch (buffer.kind) {
        case lower::Operand::Kind::Parameter:
          pointers.push_back(pointer(operands[buffer.number], code_->kernels[i].buffers[k].written, beside));
          break;
        case lower::Operand::Kind::Result:
          pointers.push_back(pointer(results[buffer.number], true, beside));
          break;
        case lower::Operand::Kind::Temporary:
          pointers.push_back(pointer(temporaries[buffer.number], true, beside));
          break;
        case lower::Operand::Kind::Flag:
          pointers.push_back(&raises);
          break;
      }
    }
    for (const Known& argument : each.arguments) arguments.push_back(argument.in(sizes));
    int64_t steps = each.steps.in(sizes), work = each.work.in(sizes);
    kernel::Function function = code_->compiled[i].function;
    if (work < 2 * kWorkOfTask || steps < 2) {
      if (steps > 0) function(pointers.data(), arguments.data(), 0, steps);
      if (guarded) guarded->copyBack();
      if (raises) return false;
      continue;
    }
    int64_t grain = std::max<int64_t>(
        1, static_cast<int64_t>(static_cast<double>(steps) / static_cast<double>(work) * kWorkOfTask));
    at::parallel_for(0, steps, grain,
                     [&](int64_t begin, int64_t end) { function(pointers.data(), arguments.data(), begin, end); });
    if (guarded) guarded->copyBack();
    if (raises) return false;
  }
  return true;
}

}  // namespace saker::runtime
