#include "runtime/fused.h"

#include <ATen/ops/empty.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "aten/enums.h"
#include "runtime/parallel.h"

namespace saker::runtime {

namespace {

std::atomic<uint64_t> launches = 0;

Known knownOf(const sym::Int& value, SizePlan& sizes) {
  if (value.isConst()) return {value.constant(), kNone};
  return {0, sizes.flat.add(value.node())};
}
Known knownOf(const lower::Number& number, SizePlan& sizes) {
  return {0, sizes.flat.add(number.value.node()), number.single ? Known::As::Single : Known::As::Double};
}

}  // namespace

int64_t Known::bits(Sizes& sizes) const {
  double value = *sizes.value(cell).real();
  if (as == As::Double) return std::bit_cast<int64_t>(value);
  return std::bit_cast<int32_t>(static_cast<float>(value));
}

FusedCode::FusedCode(const ir::Node& group, SizePlan& sizes) : code_(std::make_shared<GroupCode>()) {
  lower::Lowered lowered = lower::lower(group);
  reason_ = lowered.reason;
  if (!lowered.ok()) return;
  inPlace_ = lower::inPlace(group, lowered);
  for (lower::Launch& from : lowered.launches) {
    Launch launch;
    launch.buffers = std::move(from.buffers);
    for (const sym::Int& argument : from.arguments) launch.arguments.push_back(knownOf(argument, sizes));
    for (const lower::Number& number : from.numbers) launch.arguments[number.argument] = knownOf(number, sizes);
    launch.steps = knownOf(from.steps, sizes);
    launch.work = knownOf(from.work, sizes);
    launches_.push_back(std::move(launch));
    code_->kernels.push_back(std::move(from.kernel));
  }
  for (const lower::Temporary& from : lowered.temporaries) {
    temporaries_.push_back({aten::fromDType(from.dtype), knownOf(from.elements, sizes)});
  }
  placeTemporaries();
  for (const ir::Use& use : group.operands()) operands_.push_back(sizes.tell(*use.value->tensor()));
}

void* FusedCode::pointer(const at::Tensor& tensor, bool written, GuardedBuffers* guarded) {
  if (guarded) return guarded->add(tensor, written);
  return written ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
}

uint64_t FusedCode::launched() { return launches.load(std::memory_order_relaxed); }

// Those that different launches need lie in the same place.
void FusedCode::placeTemporaries() {
  std::vector<Block> blocks;
  for (const Temporary& each : temporaries_) {
    if (each.elements.cell != kNone) return;
    blocks.push_back({static_cast<size_t>(each.elements.number) * c10::elementSize(each.dtype), SIZE_MAX, 0});
  }
  for (size_t i = 0; i < launches_.size(); ++i) {
    for (const lower::Operand& buffer : launches_[i].buffers) {
      if (buffer.kind != lower::Operand::Kind::Temporary) continue;
      Block& block = blocks[buffer.number];
      block.first = std::min(block.first, i);
      block.last = i;
    }
  }
  for (Block& block : blocks) block.first = std::min(block.first, block.last);  // nobody needs it
  scratchBytes_ = arrange(blocks);
  for (const Block& block : blocks) offsets_.push_back(block.offset);
}

void FusedCode::allocate(Temporaries& made, Sizes& sizes, Workspace* workspace, void* scratch, bool apart) const {
  if (apart) {
    for (const Temporary& each : temporaries_) {
      made.apart.push_back(at::empty({each.elements.in(sizes)}, at::TensorOptions(each.dtype)));
    }
    return;
  }
  if (scratch && !offsets_.empty()) {
    for (size_t offset : offsets_) made.pointers.push_back(static_cast<char*>(scratch) + offset);
    return;
  }
  constexpr size_t kLine = 64;
  c10::SmallVector<size_t, 8> offsets;
  size_t bytes = 0;
  for (const Temporary& each : temporaries_) {
    offsets.push_back(bytes);
    bytes += static_cast<size_t>(each.elements.in(sizes)) * c10::elementSize(each.dtype);
    bytes = (bytes + kLine - 1) / kLine * kLine;
  }
  if (!workspace) made.own = at::empty({static_cast<int64_t>(bytes)}, at::TensorOptions(at::kByte));
  void* begin = workspace ? workspace->scratch(bytes) : made.own.mutable_data_ptr();
  for (size_t offset : offsets) made.pointers.push_back(static_cast<char*>(begin) + offset);
}

GroupFacts FusedCode::facts() const {
  GroupFacts facts;
  if (launches_.size() != 1 || !temporaries_.empty()) return facts;
  const Launch& only = launches_[0];
  facts.small = only.work.cell == kNone && only.work.number < 2 * kWorkOfTask;
  for (size_t k = 0; k < only.buffers.size(); ++k) {
    const lower::Operand& buffer = only.buffers[k];
    facts.small &= buffer.kind != lower::Operand::Kind::Flag;
    if (buffer.kind == lower::Operand::Kind::Parameter && code_->kernels[0].buffers[k].written) {
      facts.written.push_back(buffer.number);
    }
  }
  return facts;
}

bool FusedCode::hasNumbers(Sizes& sizes) const {
  for (const Launch& each : launches_) {
    for (const Known& argument : each.arguments) {
      if (!argument.hasValue(sizes)) return false;
    }
  }
  return true;
}

void FusedCode::addTo(Launches& into, std::span<const at::Tensor> operands, std::span<const at::Tensor> results,
                      Sizes& sizes) const {
  const Launch& only = launches_[0];
  c10::SmallVector<void*, 16> pointers;
  c10::SmallVector<int64_t, 16> arguments;
  for (size_t k = 0; k < only.buffers.size(); ++k) {
    const lower::Operand& buffer = only.buffers[k];
    bool result = buffer.kind == lower::Operand::Kind::Result;
    bool written = result || code_->kernels[0].buffers[k].written;
    pointers.push_back(pointer(result ? results[buffer.number] : operands[buffer.number], written, nullptr));
  }
  for (const Known& argument : only.arguments) arguments.push_back(argument.in(sizes));
  into.add(code_->compiled[0].function, {pointers.data(), pointers.size()}, {arguments.data(), arguments.size()},
           only.steps.in(sizes), only.work.number);
}

void FusedCode::launchTogether(Launches& together) {
  launches.fetch_add(1, std::memory_order_relaxed);
  together.run();
}

bool FusedCode::launch(std::span<const at::Tensor> operands, std::span<const at::Tensor> results, Sizes& sizes,
                       Workspace* workspace, void* scratch) const {
  if (!hasNumbers(sizes)) return false;
  launches.fetch_add(launches_.size(), std::memory_order_relaxed);
  bool raises = false;
  c10::SmallVector<void*, 16> pointers;
  c10::SmallVector<int64_t, 16> arguments;
  GuardPages guards = guardPages();
  Temporaries temporaries;
  if (!temporaries_.empty()) allocate(temporaries, sizes, workspace, scratch, guards != GuardPages::Off);
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
          pointers.push_back(beside ? pointer(temporaries.apart[buffer.number], true, beside)
                                    : temporaries.pointers[buffer.number]);
          break;
        case lower::Operand::Kind::Flag:
          pointers.push_back(&raises);
          break;
      }
    }
    for (const Known& argument : each.arguments) arguments.push_back(argument.in(sizes));
    int64_t steps = each.steps.in(sizes), work = each.work.in(sizes);
    kernel::Function function = code_->compiled[i].function;
    auto part = [&](int64_t begin, int64_t end) { function(pointers.data(), arguments.data(), begin, end); };
    if (work < 2 * kWorkOfTask) {
      if (steps > 0) part(0, steps);
    } else {
      double share = static_cast<double>(kWorkOfTask) / static_cast<double>(work);
      inParallel(steps, std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(steps) * share)), part);
    }
    if (guarded) guarded->copyBack();
    if (raises) return false;
  }
  return true;
}

}  // namespace saker::runtime
