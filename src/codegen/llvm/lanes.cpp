// How many elements are computed at a time.
#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace saker::codegen {
namespace {

using kernel::kNone;

// The types that decide: as many lanes as fill a vector with the widest floats; indices may take several vectors.
int elementBytes(const kernel::Kernel& kernel) {
  bool wideFloats = false, words = false, longs = false, shorts = false;
  for (const kernel::Node& node : kernel.nodes) {
    wideFloats |= node.dtype == DType::Float64;
    words |= node.dtype == DType::Float32 || node.dtype == DType::Int32;
    longs |= node.dtype == DType::Int64;
    shorts |= ir::byteSize(node.dtype) == 2;
  }
  if (wideFloats) return 8;
  if (words) return 4;
  if (longs) return 8;
  return shorts ? 2 : 1;
}

bool computesFunctions(const kernel::Kernel& kernel, uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i) {
    if (isFunction(kernel.nodes[i].op, kernel.nodes[i].dtype)) return true;
  }
  return false;
}

bool reduces(const kernel::Kernel& kernel, uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i) {
    if (kernel.nodes[i].op == Op::Reduce) return true;
  }
  return false;
}

// Sums wait for the sum before: four at a time hide it. Where there is much else to compute, nothing is waited for.
bool worthSeveral(const kernel::Kernel& kernel, uint32_t begin, uint32_t end) {
  constexpr uint32_t kFewLines = 16;
  return reduces(kernel, begin, end) && end - begin <= kFewLines && !computesFunctions(kernel, begin, end);
}

}  // namespace

void Emitter::chooseLanes() {
  kernelLanes_ = 1;
  if (kernel_.vector == kNone || code_.target.vectorBytes == 0) return;
  // Only AVX-512 has masks for elements of less than four bytes.
  int bytes = std::max(elementBytes(kernel_), code_.target.vectorBytes == 64 ? 1 : 4);
  kernelLanes_ = code_.target.vectorBytes / bytes;
  const kernel::Extent& extent = kernel_.axes[kernel_.vector].extent;
  auto tooMany = [&](int lanes) { return extent.isNumber() && lanes / 2 >= extent.number; };
  while (kernelLanes_ > 2 && tooMany(kernelLanes_)) kernelLanes_ /= 2;
  uint32_t end = static_cast<uint32_t>(kernel_.nodes.size());
  if (!vectorReduced_ && worthSeveral(kernel_, 0, end)) {
    for (int i = 0; i < 2 && !tooMany(2 * kernelLanes_); ++i) kernelLanes_ *= 2;
  }
}

int Emitter::lanesOf(const kernel::Phase& phase) const {
  if (kernelLanes_ == 1 || !vectorReduced_ || !worthSeveral(kernel_, phase.begin, phase.end)) return kernelLanes_;
  const kernel::Extent& extent = kernel_.axes[kernel_.vector].extent;
  int lanes = kernelLanes_;
  for (int i = 0; i < 2 && (!extent.isNumber() || lanes < extent.number); ++i) lanes *= 2;
  return lanes;
}

}  // namespace saker::codegen
