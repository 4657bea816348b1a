#include "aot/zero_tangents.h"

#include "autograd/imitated.h"
#include "ir/clone.h"
#include "ops/builder.h"
#include "passes/pass.h"

namespace saker::aot {

namespace {

class ZeroPropagation {
 public:
  ZeroPropagation(ir::Graph& graph, size_t firstTangent, const std::vector<bool>& given)
      : graph_(graph), zero_(graph.valueLimit()), linear_(graph.valueLimit()) {
    std::span<ir::Value* const> parameters = graph.top()->parameters();
    for (size_t i = firstTangent; i < parameters.size(); ++i) {
      linear_[parameters[i]->id()] = true;
      zero_[parameters[i]->id()] = !given[i - firstTangent];
    }
  }

  void run() {
    for (ir::Node *node = graph_.top()->first(), *next; node; node = next) {
      next = node->next();
      node->isReturn() ? finish(node) : visit(node);
    }
    // Whatever they do or draw: eager mode does not run them.
    for (; !idle_.empty(); idle_.pop_back()) {
      if (!idle_.back()->hasUsedResults()) graph_.erase(idle_.back());
    }
  }

 private:
  bool isZero(const ir::Value* value) const { return value->id() < zero_.size() && zero_[value->id()]; }
  bool isLinear(const ir::Value* value) const { return value->id() < linear_.size() && linear_[value->id()]; }

  void visit(ir::Node* node) {
    size_t linear = 0, zero = 0;
    // A tangent that is not there still has a layout.
    size_t first = autograd::isFactory(*node) ? 1 : 0;
    for (const ir::Use& use : node->operands().subspan(std::min(first, node->operandCount()))) {
      linear += isLinear(use.value);
      zero += isZero(use.value);
    }
    for (size_t i = 0; linear && i < node->resultCount(); ++i) linear_[node->result(i)->id()] = true;
    if (!zero) return;
    if (zero == linear) {
      for (size_t i = 0; i < node->resultCount(); ++i) zero_[node->result(i)->id()] = true;
      idle_.push_back(node);
      return;
    }
    if (becomesOperand(node)) return;
    for (size_t i = first; i < node->operandCount(); ++i) {
      if (isZero(node->operand(i))) graph_.setOperand(node, i, zerosLike(node->operand(i), node));
    }
  }

  // What arrives by several ways is added up: of one zero and one that is none, the other is left.
  bool becomesOperand(ir::Node* node) {
    static const ops::Operator* add = ops::find("aten::add.Tensor");
    if (node->op() != add || node->operandCount() != 2) return false;
    size_t other = isZero(node->operand(0)) ? 1 : 0;
    const ir::Arg& scale = node->arg(2);
    bool plain = scale.isNone() || (scale.kind() == ir::Arg::Kind::Int && scale.toInt() == 1);
    if (!plain || node->operand(other)->type() != node->result()->type()) return false;
    graph_.replaceAllUses(node->result(), node->operand(other));
    return true;
  }

  ir::Value* zerosLike(const ir::Value* value, ir::Node* position) {
    ops::Builder build(graph_, position->region(), position, position->origin());
    ir::Value* memory = build.memoryOf(*value->tensor());
    return build.call("aten::fill.Scalar", {ir::Arg::value(memory), ir::Arg::integer(0)});
  }

  void finish(ir::Node* end) {
    for (size_t i = 0; i < end->args().size(); ++i) {
      const ir::Arg& arg = end->arg(i);
      if (arg.isValue() && isZero(arg.toValue())) graph_.setArg(end, i, ir::Arg::none());
    }
  }

  ir::Graph& graph_;
  std::vector<bool> zero_, linear_;  // by value
  std::vector<ir::Node*> idle_;      // that only missing tangents lead to
};

}  // namespace

std::unique_ptr<ir::Graph> partOf(const ir::Graph& backward, size_t firstTangent, const std::vector<bool>& given,
                                  const std::vector<bool>& wanted) {
  std::unique_ptr<ir::Graph> graph = ir::clone(backward);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) graph->setArg(graph->top()->terminator(), i, ir::Arg::none());
  }
  ZeroPropagation(*graph, firstTangent, given).run();
  passes::RunOptions options;
  options.verify = false;
  // In eager mode what nobody asks for does not run, and does not raise.
  passes::run(*graph, "dce-errors,simplify-control-flow,dce-errors", options);
  return graph;
}

}  // namespace saker::aot
