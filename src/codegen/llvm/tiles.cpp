// Transposed loads: memory that is contiguous along another parallel axis than the vector axis. Squares of it are read
// row by row, turned in registers and put on the stack, from where the lines of the kernel read contiguous lanes.
#include <algorithm>

#include "codegen/llvm/emitter.h"

namespace saker::codegen {

using kernel::Extent;
using kernel::Index;
using kernel::kNone;
using kernel::Node;

namespace {

constexpr int kMostLanes = 16;  // a square of more would be turned by too many instructions
constexpr size_t kMostTiles = 8;

// The axis along which the load is contiguous, if that is another one than `vector`, along which it strides.
uint32_t contiguousAlong(const kernel::Kernel& kernel, const Node& node) {
  if (node.op != Op::Load || node.operands[0] != kNone || kernel.buffers[node.at].written) return kNone;
  if (!node.index.values.empty()) return kNone;
  uint32_t found = kNone;
  bool strides = false;
  for (const Index::AxisTerm& term : node.index.axes) {
    bool again = std::count_if(node.index.axes.begin(), node.index.axes.end(),
                               [&](const Index::AxisTerm& other) { return other.axis == term.axis; }) > 1;
    if (again) return kNone;
    if (term.axis == kernel.vector) {
      strides = !term.stride.is(0) && !term.stride.is(1);
    } else if (term.stride.is(1)) {
      found = term.axis;
    }
  }
  constexpr int64_t kFew = 4;  // a row of so few elements is not worth it
  if (!strides || found == kNone) return kNone;
  const Extent& extent = kernel.axes[found].extent;
  return extent.isNumber() && extent.number < kFew ? kNone : found;
}

// Rows become columns: pairs of rows exchange halves, then quarters of these, and so on.
void turn(Code& code, Values& rows) {
  int n = static_cast<int>(rows.size());
  for (int size = n / 2; size >= 1; size /= 2) {
    llvm::SmallVector<int, kMostLanes> low, high;
    for (int lane = 0; lane < n; ++lane) {
      bool first = (lane & size) == 0;
      low.push_back(first ? lane : n + lane - size);
      high.push_back(first ? lane + size : n + lane);
    }
    for (int i = 0; i < n; ++i) {
      if (i & size) continue;
      auto &a = rows[static_cast<size_t>(i)], &b = rows[static_cast<size_t>(i + size)];
      Value* before = a;
      a = code.b.CreateShuffleVector(before, b, low);
      b = code.b.CreateShuffleVector(before, b, high);
    }
  }
}

}  // namespace

void Emitter::chooseTiles() {
  bool plain = parallel_ == kernel_.axes.size() && kernel_.vector != kNone && code_.target.vectorBytes >= 32;
  for (const kernel::Axis& axis : kernel_.axes) plain &= axis.chunkOf == kNone && !axis.ordered;
  if (!plain || kernelLanes_ < 4) return;
  for (uint32_t i = 0; i < kernel_.nodes.size() && tiles_.size() < kMostTiles; ++i) {
    const Node& node = kernel_.nodes[i];
    uint32_t axis = contiguousAlong(kernel_, node);
    if (axis == kNone || (tileAxis_ != kNone && axis != tileAxis_)) continue;
    // Only AVX-512 has masks for elements of less than four bytes.
    if (ir::byteSize(node.dtype) < 4 && code_.target.vectorBytes < 64) continue;
    tileAxis_ = axis;
    tiles_[i] = nullptr;
  }
  if (tileAxis_ == kNone) return;
  kernelLanes_ = std::min(kernelLanes_, kMostLanes);
  auto entry = llvm::IRBuilder<>(code_.b.GetInsertBlock(), code_.b.GetInsertBlock()->begin());
  for (auto& [node, memory] : tiles_) {
    llvm::Type* element = code_.memoryType(kernel_.nodes[node].dtype);
    llvm::AllocaInst* made = entry.CreateAlloca(
        llvm::ArrayType::get(element, static_cast<uint64_t>(kernelLanes_) * static_cast<uint64_t>(kernelLanes_)));
    made->setAlignment(llvm::Align(64));
    memory = made;
  }
}

// Steps of the axis along which squares are contiguous, as many as there are lanes. The other axes stand inside.
void Emitter::tileLoop(uint32_t axis) {
  Range whole = range(axis);
  code_.loop(whole.begin, whole.end, kernelLanes_, {}, [&](Value* index, Values) -> Values {
    code_.openLevel();
    auto& b = code_.b;
    Value* end = b.CreateAdd(index, code_.integer(kernelLanes_));
    tile_ = {index, b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, whole.end)};
    parallelAxis(axis + 1);
    tile_ = {};
    close();
    return {};
  });
}

void Emitter::tiledLines() {
  step(tileAxis_, tile_.begin, {}, [&](Values) -> Values {
    for (const auto& [node, memory] : tiles_) fillTile(kernel_.nodes[node], memory);
    return {};
  });
  scalarLoop(tileAxis_, tile_, {}, [&](Values) -> Values {
    phases();
    return {};
  });
}

void Emitter::fillTile(const Node& node, Value* memory) {
  auto& b = code_.b;
  llvm::Type* element = code_.memoryType(node.dtype);
  llvm::Type* type = Code::widened(element, lanes_);
  llvm::Align align(static_cast<uint64_t>(ir::byteSize(node.dtype)));
  Value* stride = nullptr;
  for (const Index::AxisTerm& term : node.index.axes) {
    if (term.axis == kernel_.vector) stride = extent(term.stride);
  }
  Value* left = b.CreateTrunc(b.CreateSub(tile_.end, tile_.begin), b.getInt32Ty());
  Value* inRow =
      b.CreateICmpULT(code_.iota(b.getInt32Ty(), lanes_), b.CreateVectorSplat(static_cast<unsigned>(lanes_), left));
  Known at = pointer(node);
  Values rows;
  for (int lane = 0; lane < lanes_; ++lane) {
    Value* place = b.CreateGEP(element, at.value, b.CreateMul(stride, code_.integer(lane)));
    Value* wanted = inRow;
    if (laneMask_) {
      Value* is = b.CreateExtractElement(laneMask_, static_cast<uint64_t>(lane));
      wanted = b.CreateAnd(inRow, b.CreateVectorSplat(static_cast<unsigned>(lanes_), is));
    }
    rows.push_back(b.CreateMaskedLoad(type, place, align, wanted, llvm::Constant::getNullValue(type)));
  }
  turn(code_, rows);
  for (int lane = 0; lane < lanes_; ++lane) {
    Value* place = b.CreateConstInBoundsGEP1_64(element, memory, static_cast<uint64_t>(lane) * rows.size());
    b.CreateAlignedStore(rows[static_cast<size_t>(lane)], place, align);
  }
}

Value* Emitter::tiled(uint32_t i) {
  const Node& node = kernel_.nodes[i];
  auto& b = code_.b;
  llvm::Type* element = code_.memoryType(node.dtype);
  Value* row = b.CreateSub(axes_[tileAxis_].index, tile_.begin);
  Value* place = b.CreateGEP(element, tiles_.at(i), b.CreateMul(row, code_.integer(lanes_)));
  llvm::Align align(static_cast<uint64_t>(ir::byteSize(node.dtype)));
  return b.CreateAlignedLoad(Code::widened(element, lanes_), place, align);
}

}  // namespace saker::codegen
