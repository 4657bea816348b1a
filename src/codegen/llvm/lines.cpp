#include "codegen/llvm/arithmetic.h"
#include "codegen/llvm/convert.h"
#include "codegen/llvm/emitter.h"

namespace saker::codegen {

using kernel::kNone;
using kernel::Node;

void Emitter::lines(const kernel::Phase& phase) {
  for (uint32_t i = phase.begin; i < phase.end; ++i) {
    // What was hoisted for another copy of the loop's body is known already.
    if (kernel_.nodes[i].op != Op::Reduce && !known_[i].value) line(i);
  }
}

int Emitter::usable(const Known& known) const {
  return known.inBody && known.level < code_.top() ? known.level + 1 : known.level;
}

int Emitter::levelOf(const Node& node) const {
  int level = floor_;
  for (uint32_t operand : node.operands) {
    if (operand != kNone) level = std::max(level, usable(known_[operand]));
  }
  for (const kernel::Index::ValueTerm& term : node.index.values) level = std::max(level, usable(known_[term.value]));
  return level;
}

void Emitter::know(uint32_t node, Value* value, int level) { known_[node] = {value, level, level == code_.top()}; }

Value* Emitter::wide(const Known& known) {
  if (lanes_ == 1 || Code::lanes(known.value) > 1) return known.value;
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(known.value)) {
    return llvm::ConstantVector::getSplat(llvm::ElementCount::getFixed(static_cast<unsigned>(lanes_)), constant);
  }
  Known& splat = splats_[known.value];
  if (!splat.value || Code::lanes(splat.value) != lanes_) {
    int level = usable(known);
    Code::At at(code_, level);
    splat = {code_.b.CreateVectorSplat(static_cast<unsigned>(lanes_), known.value), level, level == code_.top()};
  }
  return splat.value;
}

void Emitter::line(uint32_t i) {
  const Node& node = kernel_.nodes[i];
  switch (node.op) {
    case Op::Constant:
      return void(known_[i] = {code_.constant(node.dtype, node.bits), 0, false});
    case Op::AxisIndex: {
      const AxisState& axis = axes_[node.at];
      if (!inVector() || node.at != kernel_.vector) return void(known_[i] = {axis.index, axis.level, false});
      Value* steps = code_.iota(code_.b.getInt64Ty(), lanes_);
      return know(i, code_.b.CreateAdd(code_.b.CreateVectorSplat(static_cast<unsigned>(lanes_), axis.index), steps),
                  code_.top());
    }
    case Op::Argument:
      return void(known_[i] = {arguments_[node.at], 0, false});
    case Op::Load:
      return load(i);
    case Op::Store:
      return store(i);
    case Op::Scan:
      return scan(i);
    default:
      break;
  }
  int level = levelOf(node);
  bool vector = false;
  int count = kernel::operandCount(node.op);
  for (int k = 0; k < count; ++k) vector |= Code::lanes(known_[node.operands[k]].value) > 1;
  Values operands;
  for (int k = 0; k < count; ++k) {
    // One condition may decide for all lanes.
    bool asItIs = !vector || (node.op == Op::Select && k == 0);
    operands.push_back(asItIs ? known_[node.operands[k]].value : wide(node.operands[k]));
  }
  DType from = kernel_.nodes[node.operands[0]].dtype;
  Code::At at(code_, level);
  if (node.op == Op::Convert) return know(i, convert(code_, operands[0], from, node.dtype), level);
  if (node.op == Op::Bitcast) {
    llvm::Type* type = Code::widened(code_.type(node.dtype), Code::lanes(operands[0]));
    return know(i, code_.b.CreateBitCast(operands[0], type), level);
  }
  if (isFunction(node.op, from)) return know(i, function(code_, functions_, node.op, from, operands), level);
  know(i, arithmetic(code_, node.op, from, operands), level);
}

}  // namespace saker::codegen
