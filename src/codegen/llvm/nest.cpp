#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace saker::codegen {

using kernel::Axis;
using kernel::Extent;
using kernel::kNone;

Emitter::Emitter(llvm::Module& module, const kernel::Kernel& kernel, const TargetInfo& target,
                 const Functions& functions, std::string name)
    : kernel_(kernel),
      functions_(functions),
      code_(module, target, std::move(name)),
      known_(kernel.nodes.size()),
      axes_(kernel.axes.size()) {
  while (parallel_ < kernel.axes.size() && !kernel.axes[parallel_].reduced) ++parallel_;
  vectorReduced_ = kernel.vector != kNone && kernel.axes[kernel.vector].reduced;
  chooseLanes();
  chooseTiles();
}

void Emitter::run() {
  auto& b = code_.b;
  llvm::Function* function = code_.function;
  for (uint32_t i = 0; i < kernel_.arguments; ++i) {
    Value* place = b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), function->getArg(1), i);
    arguments_.push_back(b.CreateAlignedLoad(b.getInt64Ty(), place, llvm::Align(8)));
  }
  for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
    Value* place = b.CreateConstInBoundsGEP1_64(b.getPtrTy(), function->getArg(0), i);
    buffers_.push_back(b.CreateAlignedLoad(b.getPtrTy(), place, llvm::Align(8)));
  }
  // Behind this, hoisted loads read what the kernel would read in any case.
  Value* some = b.CreateAnd(b.CreateICmpSLT(function->getArg(2), function->getArg(3)), notEmpty(1, parallel_));
  code_.conditional(some, {}, [&](Values) -> Values {
    code_.openLevel();
    lanes_ = vectorReduced_ ? 1 : kernelLanes_;
    parallelAxis(0);
    code_.closeLevel();
    return {};
  });
  b.CreateRetVoid();
}

Value* Emitter::extent(const Extent& extent) {
  return extent.isNumber() ? code_.integer(extent.number) : arguments_[extent.argument];
}

Value* Emitter::notEmpty(uint32_t from, uint32_t to) {
  Value* all = code_.b.getTrue();
  for (uint32_t axis = from; axis < to; ++axis) {
    if (kernel_.axes[axis].chunkOf != kNone) continue;
    all = code_.b.CreateAnd(all, code_.b.CreateICmpSGT(extent(kernel_.axes[axis].extent), code_.integer(0)));
  }
  return all;
}

Emitter::Range Emitter::range(uint32_t axis) {
  auto& b = code_.b;
  if (axis == 0) return {code_.function->getArg(2), code_.function->getArg(3)};
  const Axis& row = kernel_.axes[axis];
  Value* end = extent(row.extent);
  if (row.chunkOf != kNone) {
    Value* before = b.CreateMul(axes_[row.chunkOf].index, end);
    Value* left = b.CreateSub(extent(row.total), before);
    end = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, left);
    end = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, end, code_.integer(0));
  }
  return {code_.integer(0), end};
}

void Emitter::close() {
  int level = code_.top();
  code_.closeLevel();
  for (Known& each : known_) {
    if (each.value && each.level >= level) each = {};
  }
  auto gone = [&](const auto& each) { return each.second.level >= level; };
  std::erase_if(pointers_, gone);
  std::erase_if(splats_, gone);
}

Values Emitter::step(uint32_t axis, Value* index, Values carried, const std::function<Values(Values)>& body) {
  code_.openLevel();
  int floor = floor_;
  // A chunk may be empty: nothing that reads memory leaves it.
  if (kernel_.axes[axis].chunkOf != kNone) floor_ = code_.top();
  axes_[axis] = {index, code_.top()};
  Values after = body(std::move(carried));
  axes_[axis] = {};
  floor_ = floor;
  close();
  return after;
}

Values Emitter::scalarLoop(uint32_t axis, Range range, Values carried, const std::function<Values(Values)>& body) {
  return code_.loop(range.begin, range.end, 1, std::move(carried),
                    [&](Value* index, Values inside) { return step(axis, index, std::move(inside), body); });
}

// Of a masked store behind a truncation, whose mask is known to have one lane, LLVM 22 makes a store of too many bytes.
bool Emitter::storesShort() const {
  return std::any_of(kernel_.buffers.begin(), kernel_.buffers.end(),
                     [](const kernel::Buffer& each) { return each.written && ir::byteSize(each.dtype) < 4; });
}

Values Emitter::vectorLoop(uint32_t axis, Range range, Values carried, const std::function<Values(Values)>& body) {
  auto& b = code_.b;
  Value* count = b.CreateSub(range.end, range.begin);
  Value* whole = b.CreateAdd(range.begin, b.CreateAnd(count, code_.integer(-lanes_)));
  carried = code_.loop(range.begin, whole, lanes_, std::move(carried),
                       [&](Value* index, Values inside) { return step(axis, index, std::move(inside), body); });
  // What is left, with a mask.
  return code_.conditional(b.CreateICmpSLT(whole, range.end), std::move(carried), [&](Values inside) {
    Value* left = b.CreateTrunc(b.CreateSub(range.end, whole), b.getInt32Ty());
    if (storesShort()) left = code_.opaque(left);
    Value* first = code_.iota(b.getInt32Ty(), lanes_);
    laneMask_ = b.CreateICmpULT(first, b.CreateVectorSplat(static_cast<unsigned>(lanes_), left));
    Values after = step(axis, whole, std::move(inside), body);
    laneMask_ = nullptr;
    return after;
  });
}

void Emitter::phases() {
  for (const kernel::Phase& phase : kernel_.phases) {
    if (phase.loop) {
      loopPhase(phase);
    } else {
      lines(phase);
    }
  }
}

void Emitter::parallelAxis(uint32_t axis) {
  if (axis == parallel_) return tileAxis_ == kNone ? phases() : tiledLines();
  if (axis == tileAxis_) return tileLoop(axis);
  auto body = [&](Values) -> Values {
    parallelAxis(axis + 1);
    return {};
  };
  if (axis == kernel_.vector && lanes_ > 1) {
    vectorLoop(axis, range(axis), {}, body);
  } else {
    scalarLoop(axis, range(axis), {}, body);
  }
}

}  // namespace saker::codegen
