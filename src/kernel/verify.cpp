#include "kernel/verify.h"

namespace saker::kernel {
namespace {

// What an operation's type may be.
enum class Kind { Any, Numbers, Floats, Integers, BoolsOrIntegers };

Kind kindOf(Op op) {
  switch (op) {
    case Op::Eq:
    case Op::Ne:
    case Op::Lt:
    case Op::Le:
    case Op::Gt:
    case Op::Ge:
    case Op::Select:
    case Op::Constant:
      return Kind::Any;
    case Op::And:
    case Op::Or:
    case Op::Xor:
    case Op::Not:
      return Kind::BoolsOrIntegers;
    case Op::Shl:
    case Op::Shr:
      return Kind::Integers;
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
    case Op::Rem:
    case Op::Neg:
    case Op::Abs:
    case Op::Min:
    case Op::Max:
      return Kind::Numbers;
    default:
      return Kind::Floats;
  }
}

bool isComparison(Op op) { return op >= Op::Eq && op <= Op::Ge; }

bool fits(DType dtype, Kind kind) {
  if (!isComputed(dtype)) return false;
  switch (kind) {
    case Kind::Any:
      return true;
    case Kind::Numbers:
      return dtype != DType::Bool;
    case Kind::Floats:
      return ir::isFloat(dtype);
    case Kind::Integers:
      return ir::isIntegral(dtype, false);
    case Kind::BoolsOrIntegers:
      return ir::isIntegral(dtype, true);
  }
  return false;
}

class Verifier {
 public:
  Verifier(const Kernel& kernel, size_t limit) : kernel_(kernel), limit_(limit) {}

  std::vector<Diagnostic> run() {
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      DType dtype = kernel_.buffers[i].dtype;
      if (!isKnown(dtype)) report("b" + std::to_string(i) + " has the type " + std::string(ir::name(dtype)));
    }
    for (size_t i = 0; i < kernel_.axes.size(); ++i) axis(i);
    if (kernel_.axes.empty() || kernel_.axes[0].reduced) report("axis 0 is no parallel axis");
    if (!kernel_.axes.empty() && kernel_.axes[0].ordered) report("axis 0 is ordered, and threads share it");
    vectorAxis();
    if (!phases()) return std::move(found_);
    for (phase_ = 0; phase_ < kernel_.phases.size(); ++phase_) {
      const Phase& phase = kernel_.phases[phase_];
      for (at_ = phase.begin; at_ < phase.end; ++at_) node();
    }
    return std::move(found_);
  }

 private:
  void report(std::string message) {
    if (found_.size() < limit_) found_.push_back({std::move(message), kNone});
  }
  bool wrong(const std::string& message) {
    const Node& node = kernel_.nodes[at_];
    std::string title = (node.op == Op::Store ? "" : "%" + std::to_string(at_) + " = ") + std::string(name(node.op));
    if (found_.size() < limit_) found_.push_back({title + ": " + message, at_});
    return false;
  }

  bool known(const Extent& extent) const { return extent.isNumber() || extent.argument < kernel_.arguments; }

  void axis(size_t i) {
    const Axis& axis = kernel_.axes[i];
    std::string title = "axis " + std::to_string(i);
    if (i && kernel_.axes[i - 1].reduced && !axis.reduced)
      report(title + " is parallel and stands behind a reduced one");
    if (axis.reduced && axis.ordered) report(title + " is reduced and ordered");
    if (!known(axis.extent)) report(title + " ends at an argument that there is not");
    if (axis.extent.isNumber() && axis.extent.number < 0) report(title + " has a negative extent");
    if (axis.chunkOf == kNone) return;
    if (i == 0) report("axis 0 is a chunk");
    if (axis.chunkOf >= i) report(title + " is a chunk of an axis that does not stand before it");
    if (!known(axis.total)) report(title + " has a total that there is not");
    if (axis.chunkOf == kernel_.vector) report(title + " is a chunk of the vector axis, whose steps would end apart");
  }

  void vectorAxis() {
    uint32_t vector = kernel_.vector, count = static_cast<uint32_t>(kernel_.axes.size());
    if (vector == kNone) return;
    bool last =
        vector < count && (vector + 1 == count || kernel_.axes[vector + 1].reduced != kernel_.axes[vector].reduced);
    if (!last) report("the vector axis is neither the last parallel nor the last reduced one");
    if (vector < count && kernel_.axes[vector].ordered) report("the vector axis is ordered");
  }

  // Phases cover the nodes one after another; loops stand where there are reduced axes.
  bool phases() {
    bool reduced = !kernel_.axes.empty() && kernel_.axes.back().reduced;
    uint32_t next = 0;
    for (const Phase& phase : kernel_.phases) {
      if (phase.begin != next || phase.end < phase.begin || phase.end > kernel_.nodes.size()) {
        return report("phases do not cover the lines one after another"), false;
      }
      next = phase.end;
      if (phase.loop && !reduced) report("there is a loop, and no reduced axis");
    }
    if (next != kernel_.nodes.size()) return report("lines stand outside of phases"), false;
    if (!reduced && kernel_.phases.size() != 1) report("a kernel without reduced axes has one phase");
    return true;
  }

  // Whether a value may be used on the present line.
  bool seen(uint32_t value) {
    std::string title = "%" + std::to_string(value);
    if (value >= at_) return wrong(title + " does not stand before it");
    size_t owner = 0;
    while (value >= kernel_.phases[owner].end) ++owner;
    const Node& node = kernel_.nodes[value];
    if (node.op == Op::Store) return wrong(title + " is a store");
    if (node.op == Op::Reduce) return owner < phase_ || wrong(title + " is known behind the loop only");
    if (owner != phase_ && kernel_.phases[owner].loop) return wrong(title + " is a value of another loop");
    return true;
  }
  DType type(uint32_t value) const { return kernel_.nodes[value].dtype; }
  bool operand(uint32_t value, DType dtype) {
    if (!seen(value)) return false;
    if (type(value) == dtype) return true;
    return wrong("%" + std::to_string(value) + " has the type " + std::string(ir::name(type(value))) + " and not " +
                 std::string(ir::name(dtype)));
  }

  void node() {
    const Node& node = kernel_.nodes[at_];
    std::string type = std::string(ir::name(node.dtype));
    if (!isKnown(node.dtype)) return void(wrong("kernels do not know the type " + type));
    switch (node.op) {
      case Op::AxisIndex:
        if (node.dtype != DType::Int64) wrong("an index has the type i64");
        return void(axisSeen(node.at));
      case Op::Argument:
        if (node.dtype != DType::Int64) wrong("an argument has the type i64");
        if (node.at >= kernel_.arguments) wrong("there is no argument s" + std::to_string(node.at));
        return;
      case Op::Load:
      case Op::Store:
        return memory(node);
      case Op::Scan:
        if (kernel_.vector != kNone && kernel_.axes[kernel_.vector].reduced) wrong("goes along the vector axis");
        [[fallthrough]];
      case Op::Reduce:
        return reduce(node);
      case Op::Convert:
        return void(seen(node.operands[0]));
      case Op::Bitcast:
        if (!seen(node.operands[0])) return;
        if (ir::byteSize(this->type(node.operands[0])) != ir::byteSize(node.dtype)) wrong("the sizes differ");
        if (this->type(node.operands[0]) == DType::Bool || node.dtype == DType::Bool) wrong("bools have no bits");
        return;
      case Op::Select:
        if (!operand(node.operands[0], DType::Bool)) return;
        if (operand(node.operands[1], node.dtype)) operand(node.operands[2], node.dtype);
        if (!isComputed(node.dtype)) wrong("is not computed in " + type);
        return;
      default:
        break;
    }
    DType computed = node.dtype;
    if (isComparison(node.op)) {
      if (node.dtype != DType::Bool) return void(wrong("a comparison gives a bool"));
      if (!seen(node.operands[0])) return;
      computed = this->type(node.operands[0]);
    }
    if (!fits(computed, kindOf(node.op))) wrong("is not computed in " + std::string(ir::name(computed)));
    for (int i = 0; i < operandCount(node.op); ++i) {
      if (!operand(node.operands[i], computed)) return;
    }
  }

  void memory(const Node& node) {
    bool store = node.op == Op::Store;
    if (node.at >= kernel_.buffers.size()) return void(wrong("there is no buffer b" + std::to_string(node.at)));
    const Buffer& buffer = kernel_.buffers[node.at];
    if (store && !buffer.written) wrong("b" + std::to_string(node.at) + " is not written");
    if (store && !operand(node.operands[0], buffer.dtype)) return;
    if (node.dtype != buffer.dtype) wrong("its type is not that of b" + std::to_string(node.at));
    uint32_t mask = node.operands[store ? 1 : 0];
    if (mask != kNone && !operand(mask, DType::Bool)) return;
    if (!known(node.index.offset)) wrong("its offset is an argument that there is not");
    for (const Index::AxisTerm& term : node.index.axes) {
      if (!axisSeen(term.axis)) return;
      if (!known(term.stride)) wrong("a stride is an argument that there is not");
    }
    for (const Index::ValueTerm& term : node.index.values) {
      if (!operand(term.value, DType::Int64)) return;
      if (!known(term.stride)) wrong("a stride is an argument that there is not");
    }
  }

  void reduce(const Node& node) {
    if (!kernel_.phases[phase_].loop) wrong("stands outside of loops");
    if (!operand(node.operands[0], node.dtype)) return;
    bool bools = node.reduction == Reduction::Any || node.reduction == Reduction::All;
    if (bools ? node.dtype != DType::Bool : !fits(node.dtype, Kind::Numbers)) {
      wrong(std::string(name(node.reduction)) + " is not taken of " + std::string(ir::name(node.dtype)));
    }
  }

  // Reduced axes have no index outside of loops.
  bool axisSeen(uint32_t axis) {
    if (axis >= kernel_.axes.size()) return wrong("there is no axis i" + std::to_string(axis));
    if (!kernel_.axes[axis].reduced || kernel_.phases[phase_].loop) return true;
    return wrong("i" + std::to_string(axis) + " is reduced and has no index outside of loops");
  }

  const Kernel& kernel_;
  const size_t limit_;
  std::vector<Diagnostic> found_;
  size_t phase_ = 0;
  uint32_t at_ = 0;
};

}  // namespace

bool isKnown(DType dtype) { return isComputed(dtype) || dtype == DType::Float16 || dtype == DType::BFloat16; }

bool isComputed(DType dtype) {
  switch (dtype) {
    case DType::Bool:
    case DType::UInt8:
    case DType::Int8:
    case DType::Int16:
    case DType::Int32:
    case DType::Int64:
    case DType::Float32:
    case DType::Float64:
      return true;
    default:
      return false;
  }
}

std::vector<Diagnostic> verify(const Kernel& kernel, size_t limit) { return Verifier(kernel, limit).run(); }

}  // namespace saker::kernel
