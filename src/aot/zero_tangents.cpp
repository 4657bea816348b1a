#include "aot/zero_tangents.h"

#include "autograd/imitated.h"
#include "ops/builder.h"
#include "ops/control_flow.h"
#include "passes/bodies.h"
#include "passes/pass.h"

namespace saker::aot {

namespace {

using ir::Arg;
using ir::Value;

// Which values of a backward are linear in its tangents, and which of these are zero because only missing tangents lead
// to them: in bodies too, whose parameters are what is passed to them, and what a loop carries from step to step.
class Marks {
 public:
  Marks(const ir::Graph& graph, size_t firstTangent, const std::vector<bool>& given)
      : zero_(graph.valueLimit()), linear_(graph.valueLimit()) {
    std::span<Value* const> parameters = graph.top()->parameters();
    for (size_t i = firstTangent; i < parameters.size(); ++i) set(parameters[i], {true, !given[i - firstTangent]});
    region(*graph.top());
  }

  bool isZero(const Value* value) const { return value->id() < zero_.size() && zero_[value->id()]; }
  // There is a result of branches that is zero by way of some of them, and that others give without a tangent.
  bool differsByBranch() const { return differsByBranch_; }
  // Does anything lead to it, and only missing tangents? All its results are zero then.
  bool isIdle(const ir::Node& node) const {
    for (size_t i = 0; i < node.resultCount(); ++i) {
      if (!isZero(node.result(i))) return false;
    }
    return node.resultCount() != 0;
  }

 private:
  struct Mark {
    bool linear = false, zero = false;
  };

  Mark of(const Value* value) const { return {linear_[value->id()], zero_[value->id()]}; }
  Mark of(const Arg& arg) const { return arg.isValue() ? of(arg.toValue()) : Mark(); }
  void set(const Value* value, Mark mark) {
    linear_[value->id()] = mark.linear;
    zero_[value->id()] = mark.linear && mark.zero;
  }

  void region(const ir::Region& region) {
    for (const ir::Node* node = region.first(); node && !node->isReturn(); node = node->next()) {
      if (node->regions().empty()) {
        plain(*node);
      } else if (ops::isIf(*node) && !of(node->arg(ops::kIfCondition)).linear) {
        branches(*node);
      } else if (ops::isScan(*node)) {
        size_t carried = node->arg(ops::kScanCarried).toList().size();
        const Arg lists[] = {node->arg(ops::kScanSliced), node->arg(ops::kScanClosed)};
        loop(*node, *node->regions()[0], node->arg(ops::kScanCarried).toList(), lists, /*first=*/0);
        for (size_t i = carried; i < node->resultCount(); ++i) {
          set(node->result(i), of(node->regions()[0]->terminator()->arg(i)));
        }
      } else if (ops::isWhileBackward(*node) && !stepsAreLinear(*node)) {
        const Arg lists[] = {node->arg(ops::kWhileCarried), node->arg(ops::kWhileClosed)};
        loop(*node, *node->regions()[2], node->arg(ops::kWhileFlowing).toList(), lists, ops::keptParameters(*node));
      } else {
        unknown(*node);
      }
    }
  }

  void plain(const ir::Node& node) {
    // A tangent that is not there still has a layout.
    size_t linear = 0, zero = 0, first = autograd::isFactory(node) ? 1 : 0;
    for (const ir::Use& use : node.operands().subspan(std::min(first, node.operandCount()))) {
      linear += of(use.value).linear;
      zero += of(use.value).zero;
    }
    for (size_t i = 0; i < node.resultCount(); ++i) set(node.result(i), {linear != 0, zero == linear});
  }

  void branches(const ir::Node& node) {
    std::span<const Arg> given = ops::passedArguments(node);
    std::vector<Mark> results(node.resultCount(), Mark{false, true});
    std::vector<size_t> linear(node.resultCount());
    for (const ir::Region* body : node.regions()) {
      std::span<Value* const> parameters = ops::passedParameters(*body);
      for (size_t i = 0; i < given.size(); ++i) set(parameters[i], of(given[i]));
      region(*body);
      for (size_t i = 0; i < results.size(); ++i) {
        Mark returned = of(ops::returnedArguments(*body)[i]);
        linear[i] += returned.linear;
        results[i].linear |= returned.linear;
        results[i].zero &= returned.zero || !returned.linear;
      }
    }
    for (size_t i = 0; i < results.size(); ++i) {
      set(node.result(i), results[i]);
      differsByBranch_ |= results[i].linear && results[i].zero && linear[i] != node.regions().size();
    }
  }

  // What is carried from step to step is linear if any step makes it so, and zero as long as no step makes it anything
  // else. Its parameters stand from `first` on, and those of `others` behind them.
  void loop(const ir::Node& node, const ir::Region& body, std::span<const Arg> carried, std::span<const Arg> others,
            size_t first) {
    std::span<Value* const> parameters = body.parameters();
    size_t next = first + carried.size();
    for (const Arg& list : others) {
      for (const Arg& item : list.toList()) set(parameters[next++], of(item));
    }
    std::vector<Mark> marks;
    for (const Arg& item : carried) marks.push_back({of(item).linear, of(item).zero || !of(item).linear});
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t i = 0; i < marks.size(); ++i) set(parameters[first + i], marks[i]);
      region(body);
      for (size_t i = 0; i < marks.size(); ++i) {
        Mark returned = of(body.terminator()->arg(i));
        Mark now{marks[i].linear || returned.linear, marks[i].zero && (returned.zero || !returned.linear)};
        changed |= now.linear != marks[i].linear || now.zero != marks[i].zero;
        marks[i] = now;
      }
    }
    for (size_t i = 0; i < marks.size(); ++i) set(node.result(i), marks[i]);
  }

  bool stepsAreLinear(const ir::Node& node) const {
    for (size_t list : {ops::kWhileCarried, ops::kWhileClosed}) {
      for (const Arg& item : node.arg(list).toList()) {
        if (of(item).linear) return true;
      }
    }
    return false;
  }

  // Its bodies are given numbers, whatever they are.
  void unknown(const ir::Node& node) {
    size_t linear = 0, zero = 0;
    auto count = [&](const Value* value) {
      linear += of(value).linear;
      zero += of(value).zero;
    };
    for (const ir::Use& use : node.operands()) count(use.value);
    for (const ir::Region* body : node.regions()) {
      for (const Value* value : passes::outerValues(*body)) count(value);
    }
    for (const ir::Region* body : node.regions()) {
      for (const Value* parameter : body->parameters()) set(parameter, {linear != 0, false});
      region(*body);
    }
    for (size_t i = 0; i < node.resultCount(); ++i) set(node.result(i), {linear != 0, zero == linear});
  }

  std::vector<bool> zero_, linear_;  // by value
  bool differsByBranch_ = false;
};

// Leaves out what is zero; where something else needs it, numbers take its place.
class ZeroRemoval {
 public:
  ZeroRemoval(ir::Graph& graph, const Marks& marks) : graph_(graph), marks_(marks) {}

  void run() {
    region(graph_.top());
    // Whatever they do or draw: eager mode does not run them.
    for (; !idle_.empty(); idle_.pop_back()) {
      if (!idle_.back()->hasUsedResults()) graph_.erase(idle_.back());
    }
  }

 private:
  void region(ir::Region* region) {
    for (ir::Node *node = region->first(), *next; node; node = next) {
      next = node->next();
      if (node->isReturn() && !region->owner()) {
        finish(node);
      } else if (!node->isReturn() && marks_.isIdle(*node)) {
        idle_.push_back(node);
      } else {
        for (ir::Region* body : node->regions()) this->region(body);
        if (!becomesOperand(node)) fillIn(node);
      }
    }
  }

  void fillIn(ir::Node* node) {
    bool imitates = autograd::isFactory(*node);
    for (size_t i = 0; i < node->operandCount(); ++i) {
      Value* operand = node->operand(i);
      if (!marks_.isZero(operand)) continue;
      bool layout = i == 0 && imitates;
      if (layout && operand->isParameter()) continue;
      graph_.setOperand(node, i, memoryLike(operand, node, /*filled=*/!layout));
    }
  }

  // What arrives by several ways is added up: of one zero and one that is none, the other is left.
  bool becomesOperand(ir::Node* node) {
    static const ops::Operator* add = ops::find("aten::add.Tensor");
    if (node->op() != add || node->operandCount() != 2) return false;
    if (!marks_.isZero(node->operand(0)) && !marks_.isZero(node->operand(1))) return false;
    size_t other = marks_.isZero(node->operand(0)) ? 1 : 0;
    const Arg& scale = node->arg(2);
    bool plain = scale.isNone() || (scale.kind() == Arg::Kind::Int && scale.toInt() == 1);
    if (!plain || node->operand(other)->type() != node->result()->type()) return false;
    graph_.replaceAllUses(node->result(), node->operand(other));
    return true;
  }

  Value* memoryLike(const Value* value, ir::Node* position, bool filled) {
    ops::Builder build(graph_, position->region(), position, position->origin());
    Value* memory = build.memoryOf(*value->tensor());
    return filled ? build.call("aten::fill.Scalar", {Arg::value(memory), Arg::integer(0)}) : memory;
  }

  void finish(ir::Node* end) {
    for (size_t i = 0; i < end->args().size(); ++i) {
      const Arg& arg = end->arg(i);
      if (arg.isValue() && marks_.isZero(arg.toValue())) graph_.setArg(end, i, Arg::none());
    }
  }

  ir::Graph& graph_;
  const Marks& marks_;
  std::vector<ir::Node*> idle_;  // that only missing tangents lead to
};

}  // namespace

Part partOf(std::unique_ptr<ir::Graph> backward, size_t firstTangent, const std::vector<bool>& given,
            const std::vector<bool>& wanted) {
  Part part{std::move(backward), false};
  ir::Graph& graph = *part.graph;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) graph.setArg(graph.top()->terminator(), i, Arg::none());
  }
  Marks marks(graph, firstTangent, given);
  part.differsByBranch = marks.differsByBranch();
  ZeroRemoval(graph, marks).run();
  passes::RunOptions options;
  options.verify = false;
  // In eager mode what nobody asks for does not run, and does not raise.
  passes::run(graph, "dce-errors,simplify-control-flow,dce-errors", options);
  return part;
}

}  // namespace saker::aot
