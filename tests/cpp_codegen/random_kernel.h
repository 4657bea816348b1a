// Random kernels whose results are exact: floats are small whole numbers, and sums stay below 2^22, so that generated
// code must give the interpreter's bits in whatever order it adds.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernel/kernel.h"

namespace saker::codegen {

struct RandomKernel {
  kernel::Kernel kernel;
  std::vector<int64_t> arguments;
  std::vector<int64_t> lengths;  // of the buffers, in elements
  std::vector<bool> indices;     // buffers that hold numbers from 0 to 7
  int64_t steps = 0;             // of axis 0
};

class KernelMaker {
 public:
  explicit KernelMaker(uint64_t seed) : random_(seed) {}

  RandomKernel make() {
    axes();
    size_t phases = reduced_ ? 1 + pick(3) : 1;
    for (size_t i = 0; i < phases; ++i) phase(reduced_ > 0 && pick(4) != 0, i + 1 == phases);
    return std::move(out_);
  }

 private:
  using Extent = kernel::Extent;
  using DType = kernel::DType;
  using Op = kernel::Op;
  struct Pool {
    uint32_t value;
    double bound;  // of its magnitude
  };
  static constexpr double kLimit = 4194304;

  size_t pick(size_t n) { return random_() % n; }
  kernel::Kernel& kernel() { return out_.kernel; }

  // A number, or an argument that has it.
  Extent extent(int64_t number) {
    if (pick(3)) return {number, kernel::kNone};
    out_.arguments.push_back(number);
    return {0, kernel().arguments++};
  }

  void axes() {
    constexpr int64_t kSizes[] = {0, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64, 67, 100, 257};
    size_t parallel = 1 + pick(3);
    reduced_ = pick(3) ? pick(3) : 0;
    int64_t product = 1;
    for (size_t i = 0; i < parallel + reduced_; ++i) {
      int64_t size = kSizes[pick(12) ? 1 + pick(std::size(kSizes) - 1) : 0];
      if (product * size > 20000) size = 3;
      product *= std::max<int64_t>(size, 1);
      kernel::Axis axis;
      axis.reduced = i >= parallel;
      axis.extent = extent(size);
      if (i > 0 && size > 0 && pick(6) == 0) {
        axis.chunkOf = static_cast<uint32_t>(pick(std::min(i, parallel)));
        axis.total = extent(static_cast<int64_t>(pick(static_cast<size_t>(sizes_[axis.chunkOf] * size + 2))));
      }
      sizes_.push_back(size);
      kernel().axes.push_back(axis);
    }
    out_.steps = sizes_[0];
    size_t last = parallel + reduced_ - 1;
    switch (pick(reduced_ ? 4 : 3)) {
      case 0:
        break;
      case 3:
        kernel().vector = static_cast<uint32_t>(last);
        break;
      default:
        kernel().vector = static_cast<uint32_t>(parallel - 1);
    }
    for (const kernel::Axis& axis : kernel().axes) {
      if (axis.chunkOf == kernel().vector) kernel().vector = kernel::kNone;
    }
    parallel_ = parallel;
  }

  uint32_t add(kernel::Node node) {
    kernel().nodes.push_back(std::move(node));
    return static_cast<uint32_t>(kernel().nodes.size() - 1);
  }

  uint32_t buffer(DType dtype, bool written, int64_t length, bool indices = false) {
    kernel().buffers.push_back({dtype, written});
    out_.lengths.push_back(length);
    out_.indices.push_back(indices);
    return static_cast<uint32_t>(kernel().buffers.size() - 1);
  }

  // A place for each step of the axes that are seen, in some order, perhaps with gaps or backwards; for loads, some
  // axes are left out. The number of elements that it needs is in `length`.
  kernel::Index index(bool loop, bool forStore, int64_t& length) {
    kernel::Index index;
    std::vector<uint32_t> order;
    size_t seen = loop ? kernel().axes.size() : parallel_;
    for (uint32_t i = 0; i < seen; ++i) order.push_back(i);
    if (pick(2)) std::shuffle(order.begin(), order.end(), random_);
    int64_t stride = pick(5) ? 1 : 2 + static_cast<int64_t>(pick(3)),
            offset = static_cast<int64_t>(pick(3) ? 0 : pick(9));
    for (size_t i = order.size(); i-- > 0;) {
      uint32_t axis = order[i];
      if (!forStore && pick(4) == 0) continue;
      bool backwards = pick(8) == 0;
      index.axes.push_back({axis, extent(backwards ? -stride : stride)});
      int64_t size = std::max<int64_t>(sizes_[axis], 1);
      if (backwards) offset += stride * (size - 1);
      stride *= size;
      if (pick(6) == 0) stride += 1 + static_cast<int64_t>(pick(4));
    }
    index.offset = extent(offset);
    length = 1;
    int64_t last = offset;
    for (const auto& term : index.axes) {
      int64_t step = number(term.stride), size = std::max<int64_t>(sizes_[term.axis], 1);
      if (step > 0) last += step * (size - 1);
    }
    length = last + 1;
    return index;
  }
  int64_t number(const Extent& extent) const {
    return extent.isNumber() ? extent.number : out_.arguments[extent.argument];
  }

  uint32_t load(bool loop) {
    constexpr DType kTypes[] = {DType::Float32, DType::Float32, DType::Float32,  DType::Float64,
                                DType::Int64,   DType::Int32,   DType::Int16,    DType::UInt8,
                                DType::Int8,    DType::Bool,    DType::BFloat16, DType::Float16};
    kernel::Node node;
    node.op = Op::Load;
    node.dtype = kTypes[pick(std::size(kTypes))];
    int64_t length = 0;
    node.index = index(loop, false, length);
    if (!bools_.empty() && pick(4) == 0) node.operands[0] = bools_[pick(bools_.size())].value;
    if (!indices_.empty() && pick(3) == 0) {
      int64_t stride = 1 + static_cast<int64_t>(pick(3));
      node.index.values.push_back({indices_[pick(indices_.size())].value, extent(stride)});
      length += 7 * stride;
    }
    bool indices = node.dtype == DType::Int64 && pick(2) && node.operands[0] == kernel::kNone;
    node.at = buffer(node.dtype, false, length, indices);
    DType dtype = node.dtype;
    uint32_t value = add(std::move(node));
    if (dtype == DType::BFloat16 || dtype == DType::Float16)
      value = convert(value, DType::Float32), dtype = DType::Float32;
    if (indices) {
      indices_.push_back({value, 7});
    } else {
      keep(dtype, value, 4);
    }
    return value;
  }

  void keep(DType dtype, uint32_t value, double bound) {
    if (dtype == DType::Bool) {
      bools_.push_back({value, 1});
    } else {
      (dtype == DType::Float32 ? floats_ : others_).push_back({value, bound});
    }
  }

  uint32_t convert(uint32_t value, DType to) {
    kernel::Node node;
    node.op = Op::Convert;
    node.dtype = to;
    node.operands[0] = value;
    return add(std::move(node));
  }

  void operation() {
    if (floats_.empty()) return;
    Pool a = floats_[pick(floats_.size())], b = floats_[pick(floats_.size())];
    kernel::Node node;
    node.dtype = DType::Float32;
    node.operands[0] = a.value, node.operands[1] = b.value;
    double bound = a.bound + b.bound;
    switch (pick(12)) {
      case 0:
      case 1:
        node.op = Op::Add;
        break;
      case 2:
        node.op = Op::Sub;
        break;
      case 3:
        node.op = Op::Mul;
        bound = a.bound * b.bound;
        break;
      case 4:
        node.op = pick(2) ? Op::Max : Op::Min;
        break;
      case 5:
        node.op = pick(2) ? Op::Neg : Op::Abs;
        node.operands[1] = kernel::kNone;
        break;
      case 6:
        node.op = pick(2) ? Op::Lt : Op::Ne;
        node.dtype = DType::Bool;
        break;
      case 7:
        if (bools_.empty()) return;
        node.op = Op::Select;
        node.operands[0] = bools_[pick(bools_.size())].value;
        node.operands[1] = a.value, node.operands[2] = b.value;
        break;
      case 8: {
        node.op = Op::AxisIndex;
        node.dtype = DType::Int64;
        node.operands[0] = node.operands[1] = kernel::kNone;
        node.at = static_cast<uint32_t>(pick(loop_ ? kernel().axes.size() : parallel_));
        bound = 300;
        break;
      }
      case 9: {
        if (others_.empty()) return;
        Pool other = others_[pick(others_.size())];
        keep(DType::Float32, convert(other.value, DType::Float32), other.bound);
        return;
      }
      case 10:
        return function(a);
      default: {
        constexpr DType kTypes[] = {DType::Int64, DType::Int32, DType::Float64, DType::Bool};
        DType to = kTypes[pick(4)];
        keep(to, convert(a.value, to), a.bound);
        return;
      }
    }
    if (bound > kLimit) return;
    DType dtype = node.dtype;
    keep(dtype, add(std::move(node)), bound);
  }

  // A function of a whole number, and a question about the result that rounding does not change.
  void function(Pool of) {
    constexpr Op kFunctions[] = {Op::Sin, Op::Cos, Op::Exp, Op::Tanh, Op::Log, Op::Atan};
    kernel::Node call, limit, question;
    call.op = kFunctions[pick(std::size(kFunctions))];
    call.dtype = limit.dtype = DType::Float32;
    call.operands[0] = of.value;
    limit.op = Op::Constant;
    limit.bits = std::bit_cast<uint32_t>(call.op == Op::Exp ? 1.5f : 0.125f);
    question.op = Op::Gt;
    question.dtype = DType::Bool;
    question.operands[0] = add(std::move(call));
    question.operands[1] = add(std::move(limit));
    keep(DType::Bool, add(std::move(question)), 1);
  }

  void store(bool loop) {
    std::vector<Pool>& from = pick(5) == 0 && !others_.empty()  ? others_
                              : pick(6) == 0 && !bools_.empty() ? bools_
                                                                : floats_;
    if (from.empty()) return;
    kernel::Node node;
    node.op = Op::Store;
    uint32_t value = from[pick(from.size())].value;
    DType dtype = kernel().nodes[value].dtype;
    if (dtype == DType::Float32 && pick(4) == 0) {
      dtype = pick(2) ? DType::BFloat16 : DType::Float16;
      value = convert(value, dtype);
    }
    int64_t length = 0;
    node.index = index(loop, true, length);
    node.dtype = dtype;
    node.at = buffer(dtype, true, length);
    // In place: what lies there is read first.
    if (dtype == DType::Float32 && pick(3) == 0) {
      kernel::Node before = node;
      before.op = Op::Load;
      uint32_t old = add(std::move(before));
      kernel::Node sum;
      sum.op = Op::Add;
      sum.dtype = dtype;
      sum.operands[0] = value, sum.operands[1] = old;
      value = add(std::move(sum));
    }
    node.operands[0] = value;
    if (!bools_.empty() && pick(4) == 0) node.operands[1] = bools_[pick(bools_.size())].value;
    add(std::move(node));
  }

  void reduce() {
    using kernel::Reduction;
    kernel::Node node;
    node.op = Op::Reduce;
    double count = 1;
    for (size_t i = parallel_; i < sizes_.size(); ++i) count *= static_cast<double>(std::max<int64_t>(sizes_[i], 1));
    if (pick(5) == 0 && !bools_.empty()) {
      node.reduction = pick(2) ? Reduction::Any : Reduction::All;
      node.operands[0] = bools_[pick(bools_.size())].value;
    } else {
      std::vector<Pool>& from = pick(4) == 0 && !others_.empty() ? others_ : floats_;
      if (from.empty()) return;
      Pool operand = from[pick(from.size())];
      bool sum = pick(2) && operand.bound * count < kLimit;
      node.reduction = sum ? Reduction::Sum : pick(2) ? Reduction::Max : Reduction::Min;
      node.operands[0] = operand.value;
      later_.push_back({0, sum ? operand.bound * count : HUGE_VAL});  // of no numbers, the largest is infinite
    }
    node.dtype = kernel().nodes[node.operands[0]].dtype;
    bool isBool = node.dtype == DType::Bool;
    uint32_t value = add(std::move(node));
    if (isBool) {
      laterBools_.push_back({value, 1});
    } else {
      later_.back().value = value;
    }
  }

  void phase(bool loop, bool last) {
    loop_ = loop;
    std::vector<Pool> floats = floats_, others = others_, bools = bools_, indices = indices_;
    kernel::Phase phase;
    phase.loop = loop;
    phase.begin = static_cast<uint32_t>(kernel().nodes.size());
    for (size_t i = 0, n = 1 + pick(4); i < n; ++i) load(loop);
    for (size_t i = 0, n = pick(10); i < n; ++i) operation();
    if (loop) {
      for (size_t i = 0, n = pick(4); i < n; ++i) reduce();
    }
    if (last || pick(3) == 0) {
      for (size_t i = 0, n = 1 + pick(2); i < n; ++i) store(loop);
    }
    phase.end = static_cast<uint32_t>(kernel().nodes.size());
    kernel().phases.push_back(phase);
    if (loop) floats_ = floats, others_ = others, bools_ = bools, indices_ = indices;
    for (const Pool& each : later_) keep(kernel().nodes[each.value].dtype, each.value, each.bound);
    for (const Pool& each : laterBools_) bools_.push_back(each);
    later_.clear();
    laterBools_.clear();
  }

  std::mt19937_64 random_;
  RandomKernel out_;
  size_t reduced_ = 0, parallel_ = 0;
  bool loop_ = false;
  std::vector<int64_t> sizes_;
  std::vector<Pool> floats_, others_, bools_, indices_, later_, laterBools_;
};

}  // namespace saker::codegen
