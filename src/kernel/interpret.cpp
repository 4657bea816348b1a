#include "kernel/interpret.h"

#include <cstring>

#include "kernel/scalar_ops.h"

namespace saker::kernel {
namespace {

class Interpreter {
 public:
  Interpreter(const Kernel& kernel, void* const* buffers, const int64_t* arguments)
      : kernel_(kernel),
        buffers_(buffers),
        arguments_(arguments),
        values_(kernel.nodes.size()),
        sums_(kernel.nodes.size()),
        indices_(kernel.axes.size()) {
    while (parallel_ < kernel.axes.size() && !kernel.axes[parallel_].reduced) ++parallel_;
  }

  void run(int64_t begin, int64_t end) {
    for (indices_[0] = begin; indices_[0] < end; ++indices_[0]) {
      each(1, parallel_, [&] { step(); });
    }
  }

 private:
  int64_t number(const Extent& extent) const { return extent.isNumber() ? extent.number : arguments_[extent.argument]; }

  // Calls `body` for all steps of the axes from `axis` to `end`.
  template <typename Body>
  void each(size_t axis, size_t end, const Body& body) {
    if (axis == end) return body();
    const Axis& row = kernel_.axes[axis];
    int64_t extent = number(row.extent);
    for (int64_t& i = indices_[axis] = 0; i < extent; ++i) {
      if (row.chunkOf != kNone && indices_[row.chunkOf] * extent + i >= number(row.total)) break;
      each(axis + 1, end, body);
    }
  }

  void step() {
    for (const Phase& phase : kernel_.phases) {
      if (!phase.loop) {
        lines(phase);
        continue;
      }
      for (uint32_t i = phase.begin; i < phase.end; ++i) {
        const Node& node = kernel_.nodes[i];
        if (node.op == Op::Reduce || node.op == Op::Scan) sums_[i] = identity(node.reduction, node.dtype);
      }
      each(parallel_, kernel_.axes.size(), [&] { lines(phase); });
      for (uint32_t i = phase.begin; i < phase.end; ++i) {
        const Node& node = kernel_.nodes[i];
        if (node.op == Op::Reduce) values_[i] = result(sums_[i], node.reduction, node.dtype);
      }
    }
  }

  void lines(const Phase& phase) {
    for (uint32_t i = phase.begin; i < phase.end; ++i) line(i);
  }

  void line(uint32_t i) {
    const Node& node = kernel_.nodes[i];
    Bits& out = values_[i];
    switch (node.op) {
      case Op::Constant:
        out = node.bits;
        return;
      case Op::AxisIndex:
        out = static_cast<Bits>(indices_[node.at]);
        return;
      case Op::Argument:
        out = static_cast<Bits>(arguments_[node.at]);
        return;
      case Op::Load:
        out = 0;
        if (node.operands[0] != kNone && !values_[node.operands[0]]) return;
        std::memcpy(&out, place(node), static_cast<size_t>(ir::byteSize(node.dtype)));
        if (node.dtype == DType::Bool) out = out != 0;
        return;
      case Op::Store:
        if (node.operands[1] != kNone && !values_[node.operands[1]]) return;
        std::memcpy(place(node), &values_[node.operands[0]], static_cast<size_t>(ir::byteSize(node.dtype)));
        return;
      case Op::Reduce:
        accumulate(sums_[i], node.reduction, node.dtype, values_[node.operands[0]]);
        return;
      case Op::Scan:
        accumulate(sums_[i], node.reduction, node.dtype, values_[node.operands[0]]);
        out = result(sums_[i], node.reduction, node.dtype);
        return;
      default:
        break;
    }
    Bits operands[3] = {};
    for (int k = 0; k < operandCount(node.op); ++k) operands[k] = values_[node.operands[k]];
    // Of select, the first operand is a bool; all others have the type of their first.
    DType from = kernel_.nodes[node.operands[0]].dtype;
    out = compute(node, from, operands);
  }

  char* place(const Node& node) const {
    int64_t offset = number(node.index.offset);
    for (const Index::AxisTerm& term : node.index.axes) offset += number(term.stride) * indices_[term.axis];
    for (const Index::ValueTerm& term : node.index.values) {
      offset += number(term.stride) * static_cast<int64_t>(values_[term.value]);
    }
    return static_cast<char*>(buffers_[node.at]) + offset * ir::byteSize(node.dtype);
  }

  const Kernel& kernel_;
  void* const* buffers_;
  const int64_t* arguments_;
  size_t parallel_ = 0;
  std::vector<Bits> values_;
  std::vector<Accumulator> sums_;
  std::vector<int64_t> indices_;
};

}  // namespace

void interpret(const Kernel& kernel, void* const* buffers, const int64_t* arguments, int64_t begin, int64_t end) {
  Interpreter(kernel, buffers, arguments).run(begin, end);
}

}  // namespace saker::kernel
