#include "kernel/constant.h"
#include "kernel/kernel.h"

namespace saker::kernel {
namespace {

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) {}

  std::string run() {
    signature();
    for (size_t i = 0; i < kernel_.axes.size(); ++i) axis(i);
    if (kernel_.vector != kNone) out_ += "  vector i" + std::to_string(kernel_.vector) + '\n';
    for (const Phase& phase : kernel_.phases) {
      out_ += phase.loop ? "  loop {\n" : "  once {\n";
      for (uint32_t i = phase.begin; i < phase.end; ++i) node(i);
      out_ += "  }\n";
    }
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  void signature() {
    out_ += "kernel(";
    const char* separator = "";
    for (size_t i = 0; i < kernel_.buffers.size(); ++i) {
      out_ += separator;
      separator = ", ";
      out_ += 'b' + std::to_string(i) + (kernel_.buffers[i].written ? ": out " : ": ");
      out_ += ir::name(kernel_.buffers[i].dtype);
    }
    for (uint32_t i = 0; i < kernel_.arguments; ++i) {
      out_ += separator;
      separator = ", ";
      out_ += 's' + std::to_string(i) + ": size";
    }
    out_ += ") {\n";
  }

  void axis(size_t i) {
    const Axis& axis = kernel_.axes[i];
    out_ += axis.reduced ? "  reduced i" : axis.ordered ? "  ordered i" : "  parallel i";
    out_ += std::to_string(i) + " < ";
    extent(axis.extent);
    if (axis.chunkOf != kNone) {
      out_ += " while ";
      extent(axis.extent);
      out_ += "*i" + std::to_string(axis.chunkOf) + " + i" + std::to_string(i) + " < ";
      extent(axis.total);
    }
    out_ += '\n';
  }

  void node(uint32_t i) {
    const Node& node = kernel_.nodes[i];
    out_ += "    ";
    if (node.op != Op::Store) {
      value(i);
      out_ += ": ";
      out_ += ir::name(node.dtype);
      out_ += " = ";
    }
    out_ += name(node.op);
    switch (node.op) {
      case Op::Constant:
        out_ += ' ';
        appendConstant(out_, node.dtype, node.bits);
        break;
      case Op::AxisIndex:
        out_ += " i" + std::to_string(node.at);
        break;
      case Op::Argument:
        out_ += " s" + std::to_string(node.at);
        break;
      case Op::Load:
        place(node);
        mask(node.operands[0]);
        break;
      case Op::Store:
        place(node);
        out_ += ", ";
        value(node.operands[0]);
        mask(node.operands[1]);
        break;
      case Op::Reduce:
      case Op::Scan:
        out_ += '.';
        out_ += name(node.reduction);
        [[fallthrough]];
      default:
        for (int k = 0; k < operandCount(node.op); ++k) {
          out_ += k ? ", " : " ";
          value(node.operands[k]);
        }
    }
    out_ += '\n';
  }

  void value(uint32_t i) { out_ += '%' + std::to_string(i); }
  void mask(uint32_t i) {
    if (i == kNone) return;
    out_ += " if ";
    value(i);
  }
  void extent(const Extent& extent) {
    out_ += extent.isNumber() ? std::to_string(extent.number) : 's' + std::to_string(extent.argument);
  }
  void place(const Node& node) {
    const Index& index = node.index;
    out_ += " b" + std::to_string(node.at) + '[';
    bool first = true;
    auto term = [&](const Extent& stride, std::string of) {
      if (!first) out_ += " + ";
      first = false;
      if (!stride.is(1)) extent(stride), out_ += '*';
      out_ += of;
    };
    if (!index.offset.is(0) || (index.axes.empty() && index.values.empty())) extent(index.offset), first = false;
    for (const Index::AxisTerm& each : index.axes) term(each.stride, 'i' + std::to_string(each.axis));
    for (const Index::ValueTerm& each : index.values) term(each.stride, '%' + std::to_string(each.value));
    out_ += ']';
  }

  const Kernel& kernel_;
  std::string out_;
};

}  // namespace

std::string print(const Kernel& kernel) { return Printer(kernel).run(); }

}  // namespace saker::kernel
