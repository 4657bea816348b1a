#include "codegen/llvm/arithmetic.h"
#include "codegen/llvm/emitter.h"

namespace saker::codegen {

using kernel::Node;
using kernel::Phase;

// Sums of many floats are taken in blocks, and sums of blocks in blocks, so that errors do not add up: each part has at
// most so many summands.
constexpr int64_t kSummands = 128;

// Reductions and scans: what a loop carries.
std::vector<uint32_t> Emitter::reductions(const Phase& phase) const {
  std::vector<uint32_t> found;
  for (uint32_t i = phase.begin; i < phase.end; ++i) {
    if (kernel_.nodes[i].op == Op::Reduce || kernel_.nodes[i].op == Op::Scan) found.push_back(i);
  }
  return found;
}

Values Emitter::identities(const Phase& phase) {
  Values out;
  for (uint32_t i : reductions(phase)) {
    const Node& node = kernel_.nodes[i];
    out.push_back(wide(identity(code_, node.reduction, node.dtype)));
  }
  return out;
}

// What a part of a loop begins with: a scan goes on, a reduction begins anew.
Values Emitter::begun(const Phase& phase, const Values& before) {
  Values out = identities(phase);
  std::vector<uint32_t> nodes = reductions(phase);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (kernel_.nodes[nodes[i]].op == Op::Scan) out[i] = before[i];
  }
  return out;
}

// What was carried before a part of a loop, with what the part began with and what it gives.
Values Emitter::combined(const Phase& phase, const Values& a, const Values& b) {
  Values out;
  for (uint32_t i : reductions(phase)) {
    const Node& node = kernel_.nodes[i];
    size_t at = out.size();
    out.push_back(node.op == Op::Scan ? b[at] : combine(code_, node.reduction, node.dtype, a[at], b[at]));
  }
  return out;
}

void Emitter::scan(uint32_t i) {
  const Node& node = kernel_.nodes[i];
  know(i, combine(code_, node.reduction, node.dtype, scans_.at(i), wide(node.operands[0])), code_.top());
}

Values Emitter::accumulated(const Phase& phase, Values sums) {
  Values numbers;
  for (uint32_t i : reductions(phase)) {
    const Node& node = kernel_.nodes[i];
    if (node.op == Op::Scan) {
      numbers.push_back(known_[i].value);
      continue;
    }
    Value* number = wide(node.operands[0]);
    // Where lanes are parallel, those that have ended are not stored; here they must not count.
    if (laneMask_ && vectorReduced_) {
      number = code_.b.CreateSelect(laneMask_, number, wide(identity(code_, node.reduction, node.dtype)));
    }
    numbers.push_back(number);
  }
  return combined(phase, sums, numbers);
}

Value* Emitter::acrossLanes(const Node& node, Value* vector) {
  while (Code::lanes(vector) > 1) {
    int half = Code::lanes(vector) / 2;
    vector = combine(code_, node.reduction, node.dtype, code_.part(vector, 0, half), code_.part(vector, half, half));
  }
  return vector;
}

void Emitter::loopPhase(const Phase& phase) {
  uint32_t end = static_cast<uint32_t>(kernel_.axes.size());
  if (vectorReduced_) lanes_ = lanesOf(phase);
  Values sums = code_.conditional(notEmpty(parallel_, end), identities(phase), [&](Values inside) {
    code_.openLevel();
    int floor = floor_;
    floor_ = code_.top();
    Values after = reducedAxis(phase, parallel_, std::move(inside));
    floor_ = floor;
    close();
    return after;
  });
  std::vector<uint32_t> nodes = reductions(phase);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (kernel_.nodes[nodes[i]].op == Op::Scan) continue;
    Value* sum = vectorReduced_ ? acrossLanes(kernel_.nodes[nodes[i]], sums[i]) : sums[i];
    know(nodes[i], sum, code_.top());
  }
  if (vectorReduced_) lanes_ = 1;
}

Values Emitter::reducedAxis(const Phase& phase, uint32_t axis, Values sums) {
  if (axis == kernel_.axes.size()) {
    std::vector<uint32_t> nodes = reductions(phase);
    for (size_t i = 0; i < nodes.size(); ++i) scans_[nodes[i]] = sums[i];
    lines(phase);
    return accumulated(phase, std::move(sums));
  }
  bool vector = axis == kernel_.vector && lanes_ > 1;
  std::vector<int64_t> spans;
  bool addsFloats = false;
  for (uint32_t i : reductions(phase)) {
    const Node& node = kernel_.nodes[i];
    addsFloats |= node.op == Op::Reduce && node.reduction == kernel::Reduction::Sum && ir::isFloat(node.dtype);
  }
  const kernel::Extent& extent = kernel_.axes[axis].extent;
  int64_t span = kSummands * (vector ? lanes_ : 1);
  for (int i = 0; addsFloats && i < 2; ++i, span *= kSummands) {
    if (!extent.isNumber() || extent.number > span) spans.insert(spans.begin(), span);
  }
  auto body = [&](Values inside) { return reducedAxis(phase, axis + 1, std::move(inside)); };
  std::function<Values(Range, llvm::ArrayRef<int64_t>, Values)> part = [&](Range range, llvm::ArrayRef<int64_t> left,
                                                                           Values inside) -> Values {
    if (left.empty()) {
      return vector ? vectorLoop(axis, range, std::move(inside), body)
                    : scalarLoop(axis, range, std::move(inside), body);
    }
    auto& b = code_.b;
    return code_.loop(range.begin, range.end, left[0], std::move(inside), [&](Value* index, Values before) {
      Value* end = b.CreateAdd(index, code_.integer(left[0]));
      end = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, range.end);
      return combined(phase, before, part({index, end}, left.drop_front(), begun(phase, before)));
    });
  };
  // Inside of another reduced axis, sums begin anew with each of its steps.
  bool outermost = axis == parallel_ || !addsFloats;
  Values own = part(range(axis), spans, outermost ? sums : begun(phase, sums));
  return outermost ? own : combined(phase, sums, own);
}

}  // namespace saker::codegen
