#include "autograd/split.h"

#include <algorithm>

#include "autograd/checkpoint.h"
#include "autograd/symbols.h"
#include "ir/copy_arg.h"
#include "ops/infer.h"
#include "ops/view_inverse.h"

namespace saker::autograd {
namespace {

using ir::Arg;
using ir::Node;
using ir::Value;

// One half under construction: copies nodes of the joint graph.
class Half {
 public:
  Half(const ir::Graph& joint, std::string name)
      : graph_(std::make_unique<ir::Graph>(joint.sharedContext(), std::move(name))), values_(joint.valueLimit()) {}

  void addParameter(const Value* of) {
    values_[of->id()] = graph_->addParameter(graph_->top(), of->type(), of->name());
  }
  void addParameter(const Value* of, const ir::Type* type) {
    values_[of->id()] = graph_->addParameter(graph_->top(), type, of->name());
  }
  void addNumber(const sym::Node* expression) {
    ir::TypeKind kind = expression->isInt()    ? ir::TypeKind::Int
                        : expression->isBool() ? ir::TypeKind::Bool
                                               : ir::TypeKind::Float;
    graph_->addParameter(graph_->top(), graph_->context().types().scalar(kind, expression));
  }
  Value* at(const Value* of) const { return values_[of->id()]; }

  void copy(const Node& from) { copyNode(from, graph_->top()); }
  Value* clone(Value* of) {
    const ops::Operator* op = ops::find("aten::clone");
    Arg args[] = {Arg::value(of), Arg::none()};
    const ir::Type* type = ops::infer(*op, graph_->context(), args).results[0];
    return graph_->append(graph_->top(), op, args, {&type, 1})->result();
  }
  // Draws as in the forward: from the state that the generator had there, which is put back afterwards.
  void copyDrawing(const Node& from, const Value* state) {
    const ir::Type* type = state->type();
    Value* now = graph_->append(graph_->top(), state->def()->op(), {}, {&type, 1})->result();
    setState(at(state));
    copy(from);
    setState(now);
  }
  // Bodies return what their node results in: they cannot be given another layout.
  bool changesBodies() const { return changesBodies_; }
  std::unique_ptr<ir::Graph> finish(std::span<const Arg> results, const ir::Location* location) {
    graph_->appendReturn(graph_->top(), results, location);
    return std::move(graph_);
  }

  // Of an argument of the joint graph; lists live until the next node is copied.
  Arg copyArg(const Arg& from) { return ir::copyArg(from, values_, scratch_); }

 private:
  void setState(Value* state) {
    Arg args[] = {Arg::value(state)};
    graph_->append(graph_->top(), ops::find("saker::set_rng_state"), args, {});
  }

  void copyRegion(const ir::Region& from, ir::Region* to) {
    for (const Value* parameter : from.parameters()) {
      values_[parameter->id()] = graph_->addParameter(to, parameter->type(), parameter->name());
    }
    for (const Node* node = from.first(); node; node = node->next()) copyNode(*node, to);
  }

  void copyNode(const Node& from, ir::Region* to) {
    scratch_.reset({});
    Arg* args = scratch_.makeArray<Arg>(from.args().size());
    for (size_t i = 0; i < from.args().size(); ++i) args[i] = copyArg(from.arg(i));
    std::vector<const ir::Type*> types;
    types.reserve(from.resultCount());
    for (size_t i = 0; i < from.resultCount(); ++i) types.push_back(from.result(i)->type());
    if (hasOtherInputs(from)) {
      inferAgain(from, {args, from.args().size()}, types);
      changesBodies_ |= to->owner() || !from.regions().empty();
    }
    Node* made = graph_->create(from.op(), {args, from.args().size()}, types, 0, from.origin());
    graph_->append(to, made);
    for (size_t i = 0; i < from.resultCount(); ++i) {
      values_[from.result(i)->id()] = made->result(i);
      if (!from.result(i)->name().empty()) graph_->setName(made->result(i), from.result(i)->name());
    }
    for (const ir::Region* body : from.regions()) copyRegion(*body, graph_->addRegion(made));
  }

  // A copy of a primal may have another layout than the primal, and so have views of it.
  bool hasOtherInputs(const Node& node) const {
    return std::any_of(node.operands().begin(), node.operands().end(),
                       [&](const ir::Use& use) { return at(use.value)->type() != use.value->type(); });
  }
  void inferAgain(const Node& node, std::span<const Arg> args, std::vector<const ir::Type*>& types) {
    if (!ops::of(&node)) return;
    ops::Inferred inferred = ops::infer(*ops::of(&node), graph_->context(), args);
    if (inferred.ok() && inferred.results.size() == types.size())
      types.assign(inferred.results.begin(), inferred.results.end());
  }

  std::unique_ptr<ir::Graph> graph_;
  std::vector<Value*> values_;  // by number in the joint graph
  Arena scratch_;
  bool changesBodies_ = false;
};

class Splitter {
 public:
  Splitter(const JointGraph& joint, std::vector<Value*> saved)
      : joint_(joint), saved_(std::move(saved)), isSaved_(joint.graph().valueLimit()) {
    sortSaved();
    for (const Value* value : saved_) isSaved_[value->id()] = true;
  }

  std::variant<Cut, std::string> run() {
    planBackward();
    if (error_) return *error_;
    findNumbers();
    Cut cut;
    cut.forward = makeForward();
    cut.backward = makeBackward();
    if (error_) return *error_;
    for (const Value* value : saved_) {
      bool isPrimal = joint_.isPrimal(value) && !joint_.mustCopy(value);
      cut.saved.push_back({isPrimal ? std::optional<size_t>(value->index()) : std::nullopt});
    }
    cut.saved.resize(saved_.size() + numbers_.size());
    cut.savedBytes = joint_.bytesOf(saved_);
    return cut;
  }

 private:
  // Tensors, then numbers; values are numbered in order, parameters first.
  void sortSaved() {
    std::sort(saved_.begin(), saved_.end(), [](const Value* a, const Value* b) {
      return std::make_pair(!a->tensor(), a->id()) < std::make_pair(!b->tensor(), b->id());
    });
  }

  // The nodes of the backward in their order: what depends on tangents as in the joint graph, and what is computed
  // again right before its first use.
  void planBackward() {
    planned_.resize(joint_.nodes().size());
    for (size_t place = 0; place < joint_.nodes().size(); ++place) {
      if (joint_.inBackward(place)) plan(place);
    }
    for (const Value* gradient : joint_.gradients()) plan(gradient);
  }

  void plan(const Value* value) {
    if (isSaved_[value->id()] || joint_.isTangent(value)) return;
    if (joint_.isPrimal(value)) {
      error_ = "the backward reads a primal that is not saved";
    } else {
      plan(joint_.definedAt(value));
    }
  }

  void plan(size_t place) {
    if (planned_[place]) return;
    // Without recursion: a chain may be as long as the graph. A node is entered once, and left when its inputs are
    // there.
    std::vector<std::pair<size_t, bool>> stack = {{place, false}};
    while (!stack.empty()) {
      auto [at, entered] = stack.back();
      stack.pop_back();
      if (planned_[at]) continue;
      const Node* node = joint_.nodes()[at];
      if (entered) {
        planned_[at] = true;
        backward_.push_back(node);
        checkOffsets(*node);
        if (Value* state = drawnFrom(*node); state && !isSaved_[state->id()]) {
          isSaved_[state->id()] = true;
          saved_.push_back(state);
        }
        continue;
      }
      stack.push_back({at, true});
      size_t first = stack.size();
      joint_.eachInput(node, [&](const Value* input) {
        if (isSaved_[input->id()] || joint_.isTangent(input)) return;
        if (joint_.isPrimal(input)) {
          error_ = "the backward reads a primal that is not saved";
        } else if (!planned_[joint_.definedAt(input)]) {
          stack.push_back({joint_.definedAt(input), false});
        }
      });
      std::reverse(stack.begin() + static_cast<ptrdiff_t>(first), stack.end());
    }
  }

  // Of a random operator of the forward that is computed again: the state of the generator before it.
  Value* drawnFrom(const Node& node) const {
    bool random = joint_.effectsOf(node).has(ops::kRandom);
    bool drawsAgain = random && joint_.inForward(joint_.placeOf(&node));
    return drawsAgain ? stateBefore(node) : nullptr;
  }

  // Places counted from the start of a memory mean nothing in a copy that starts elsewhere.
  void checkOffsets(const Node& node) {
    if (!node.resultCount() || !node.operandCount() || !joint_.mustCopy(node.operand(0))) return;
    if (!ops::of(&node) || ops::sharing(node, 0) != ops::Sharing::Storage) return;
    const ir::TensorType* type = node.operand(0)->tensor();
    if (type->offset.isConst() && type->offset.constant() == 0) return;
    error_ = "the backward reads a written input that does not start at its storage through " + node.op()->qualified;
  }

  void findNumbers() {
    SymbolUse symbols(joint_.graph().context().symbols());
    for (const Value* value : saved_) symbols.bind(value->type());
    for (const Value* parameter : joint_.graph().top()->parameters()) {
      if (joint_.isTangent(parameter)) symbols.bind(parameter->type());
    }
    for (const Node* node : backward_) symbols.read(*node);
    for (size_t i = joint_.layout().forwardResults; i < end()->args().size(); ++i) symbols.read(end()->arg(i));
    std::vector<const sym::Node*> missing = symbols.unbound();
    // A primal that is such a number is passed itself.
    for (Value* parameter : joint_.graph().top()->parameters()) {
      const ir::ScalarType* scalar = ir::asScalar(parameter->type());
      if (!scalar || !joint_.isPrimal(parameter) || isSaved_[parameter->id()]) continue;
      if (std::erase(missing, scalar->expression)) saved_.push_back(parameter);
    }
    sortSaved();
    numbers_ = std::move(missing);
  }

  std::unique_ptr<ir::Graph> makeForward() {
    std::vector<bool> needed(joint_.nodes().size());
    auto need = [&](const Value* value) {
      if (!value->isParameter()) needed[joint_.definedAt(value)] = true;
    };
    for (const Value* value : saved_) need(value);
    for (size_t place = joint_.nodes().size(); place-- > 0;) {
      if (joint_.inForward(place)) needed[place] = true;
      if (needed[place]) joint_.eachInput(joint_.nodes()[place], need);
    }
    Half half(joint_.graph(), "forward");
    copies_.resize(isSaved_.size());
    auto copyIfWritten = [&](const Value* value) {
      if (isSaved_[value->id()] && joint_.mustCopy(value)) copies_[value->id()] = half.clone(half.at(value));
    };
    for (Value* primal : joint_.graph().top()->parameters()) {
      if (joint_.isPrimal(primal)) half.addParameter(primal);
    }
    for (Value* primal : joint_.graph().top()->parameters()) {
      if (joint_.isPrimal(primal)) copyIfWritten(primal);
    }
    for (size_t place = 0; place < joint_.nodes().size(); ++place) {
      if (!needed[place]) continue;
      const Node* node = joint_.nodes()[place];
      if (isUnreadState(*node) && !isSaved_[node->result()->id()]) continue;
      half.copy(*node);
      for (size_t i = 0; i < node->resultCount(); ++i) copyIfWritten(node->result(i));
    }
    std::vector<Arg> results;
    results.reserve(joint_.layout().forwardResults + saved_.size() + numbers_.size());
    for (size_t i = 0; i < joint_.layout().forwardResults; ++i) results.push_back(half.copyArg(end()->arg(i)));
    for (const Value* value : saved_) {
      Value* copy = copies_[value->id()];
      results.push_back(Arg::value(copy ? copy : half.at(value)));
    }
    for (const sym::Node* number : numbers_) {
      results.push_back(number->isInt()    ? Arg::symInt(sym::Int(number))
                        : number->isBool() ? Arg::symBool(sym::Bool(number))
                                           : Arg::symFloat(sym::Float(number)));
    }
    return half.finish(results, end()->location());
  }

  std::unique_ptr<ir::Graph> makeBackward() {
    Half half(joint_.graph(), "backward");
    for (const Value* value : saved_) {
      const Value* copy = copies_[value->id()];
      half.addParameter(value, copy ? copy->type() : value->type());
    }
    for (const sym::Node* number : numbers_) half.addNumber(number);
    for (const Value* parameter : joint_.graph().top()->parameters()) {
      if (joint_.isTangent(parameter)) half.addParameter(parameter);
    }
    for (const Node* node : backward_) {
      const Value* state = drawnFrom(*node);
      state ? half.copyDrawing(*node, state) : half.copy(*node);
    }
    std::vector<Arg> results;
    for (size_t i = joint_.layout().forwardResults; i < end()->args().size(); ++i) {
      results.push_back(half.copyArg(end()->arg(i)));
    }
    if (half.changesBodies()) {
      error_ = "a branch or a loop of the backward reads a written input of which a copy has other strides";
    }
    return half.finish(results, end()->location());
  }

  const Node* end() const { return joint_.graph().top()->terminator(); }

  const JointGraph& joint_;
  std::vector<Value*> saved_;
  std::vector<bool> isSaved_;  // by value id
  std::vector<const sym::Node*> numbers_;
  std::vector<bool> planned_;  // by place
  std::vector<const Node*> backward_;
  std::vector<Value*> copies_;  // by value id: the copy in the forward that is saved instead
  std::optional<std::string> error_;
};

}  // namespace

std::variant<Cut, std::string> split(const JointGraph& joint, std::vector<Value*> saved) {
  return Splitter(joint, std::move(saved)).run();
}

}  // namespace saker::autograd
