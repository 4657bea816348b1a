// Makes a recorded program functional: operators that write become operators that return the new contents, and what was
// written to an input is copied into it at the end. docs/functionalize.md says what is kept and what cannot be done;
// functionalize_memory.h how memory is followed.
#include <algorithm>
#include <vector>

#include "ops/functional_form.h"
#include "ops/infer.h"
#include "ops/shape.h"
#include "ops/view_inverse.h"
#include "passes/functionalize_memory.h"
#include "passes/pass.h"
#include "support/arena.h"
#include "support/check.h"

namespace saker::passes {
namespace {

using ir::Arg;
using ir::Node;
using ir::Value;

size_t countValues(const Arg& arg) {
  if (!arg.isList()) return arg.isValue();
  size_t count = 0;
  for (const Arg& item : arg.toList()) count += countValues(item);
  return count;
}

bool writes(const Node& node) {
  const ops::Operator* op = ops::of(&node);
  return op && op->writes && !ops::writesNothing(node);
}

bool isMetadataWrite(const Node& node) {
  const ops::Operator* op = ops::of(&node);
  return op && op->writes && op->cost == ops::Cost::View && !op->has(ops::kMayAlias);  // t_, resize_
}

// The end of a program that is functional but for copies into its inputs: what this pass itself leaves there.
bool isEpilogue(const Node& node) {
  static const ops::Operator* copy = ops::find("aten::copy_");
  const ops::Operator* op = ops::of(&node);
  if (!op || !node.regions().empty()) return false;
  if (!op->writes) return op->variant == ops::Variant::View && !op->has(ops::kMayAlias);
  if (!node.arg(0).isValue()) return false;
  const Value* into = node.arg(0).toValue();
  if (isMetadataWrite(node)) {
    while (into->def() && isMetadataWrite(*into->def())) into = into->def()->operand(0);
    return into->isParameter();
  }
  if (op != copy) return false;
  // Elements between those of the input are written through an as_strided.
  auto shares = [&] { return into->def() ? ops::sharing(*into->def(), into->index()) : ops::Sharing::None; };
  if (shares() == ops::Sharing::Storage) {
    while (shares() != ops::Sharing::None) into = into->def()->operand(0);
  }
  return into->isParameter();
}

class Functionalizer {
 public:
  Functionalizer(ir::Graph& graph, bool unknownReadOnly)
      : graph_(graph), memory_(graph), unknownReadOnly_(unknownReadOnly) {}

  void run() {
    ir::Region* top = graph_.top();
    if (!findWork(top)) return;
    for (Value* input : top->parameters()) {
      if (input->tensor()) memory_.makeRoot(input);
    }
    for (Node* node = top->first(); node;) {
      Node* next = node->next();
      at_ = node;
      inEpilogue_ |= node == epilogue_;
      node->isReturn() ? finish(node) : visit(node);
      node = next;
    }
  }

  // The node being visited, for the reason of a failure.
  const Node* at() const { return at_; }

 private:
  bool findWork(ir::Region* top) {
    Node* node = top->terminator();
    if (!node) throw NotFunctional{"the graph does not end in return"};
    epilogue_ = node;
    for (; node->prev() && isEpilogue(*node->prev()); node = node->prev()) epilogue_ = node->prev();
    for (node = top->first(); node != epilogue_; node = node->next()) {
      if (!ops::of(node) || writes(*node)) return true;
    }
    return false;
  }

  void visit(Node* node) {
    const ops::Operator* op = ops::of(node);
    if (!node->regions().empty()) return visitBodies(node);
    if (!op && !unknownReadOnly_) {
      throw NotFunctional{"the operator is not in the table: what it writes is not known"};
    }
    recorded_.clear();
    for (const ir::Use& use : node->operands()) recorded_.push_back(use.value);
    if (!op) return visitUnknown(node);
    if (!writes(*node)) return visitValue(node);
    if (op->cost == ops::Cost::View && (node->resultCount() != 1 || !node->result()->tensor())) {
      throw NotFunctional{"its result is not recorded as a tensor"};
    }
    if (inEpilogue_ && keep(node)) return;
    if (const ops::Operator* view = ops::viewForm(*op)) return visitMetadata(node, *view);
    if (op->cost == ops::Cost::View) return visitStorage(node, *op);
    visitWrite(node, *op);
  }

  // ---- operators that write nothing ----

  void updateOperands(Node* node) {
    for (size_t i = 0; i < node->operandCount(); ++i) {
      Value* now = memory_.contents(recorded_[i], node);
      if (now != node->operand(i)) graph_.setOperand(node, i, now);
    }
  }

  void markRead() {
    for (const Value* value : recorded_) memory_.markRead(value);
  }

  void visitUnknown(Node* node) {
    updateOperands(node);
    for (size_t i = 0; i < node->resultCount(); ++i) {
      if (node->result(i)->tensor()) memory_.makeRoot(node->result(i));
    }
    markRead();
  }

  void visitValue(Node* node) {
    updateOperands(node);
    bool view = false;
    for (size_t i = 0; i < node->resultCount(); ++i) {
      if (!node->result(i)->tensor()) continue;
      ops::Sharing sharing = ops::sharing(*node, i);
      if (sharing == ops::Sharing::None || !memory_.follows(recorded_[0])) {
        memory_.makeRoot(node->result(i));
        continue;
      }
      view = true;
      if (sharing == ops::Sharing::Same) {
        replace(node, i, recorded_[0]);
        return graph_.erase(node);
      }
      if (sharing == ops::Sharing::Storage) return visitInStorage(node);
      memory_.makeView(node, i, recorded_[0]);
    }
    if (!view) markRead();
  }

  // Counts from the start of the memory, so it is made from the tensor that all of that memory is seen through.
  void visitInStorage(Node* node) {
    Value* storage = memory_.storageOf(recorded_[0]);
    if (storage == recorded_[0] || memory_.rootOf(storage).live) return memory_.makeView(node, 0, storage);
    ops::Builder build(graph_, node->region(), node, node->origin());
    Value* view = ops::repeatView(build, *node, 0, memory_.contents(storage, node));
    memory_.makeView(view->def(), 0, storage);
    replace(node, 0, view);
    graph_.erase(node);
  }

  void replace(Node* node, size_t result, Value* by) { graph_.replaceAllUses(node->result(result), by); }

  // A body may read what is around it. What it returns may share memory with that.
  void visitBodies(Node* node) {
    bool fresh = true;
    for (ir::Region* body : node->regions()) fresh &= visitBody(body, node);
    recorded_.clear();
    for (const ir::Use& use : node->operands()) recorded_.push_back(use.value);
    updateOperands(node);
    markRead();
    for (const Value* value : recorded_) freeze(value, fresh);
    for (size_t i = 0; i < node->resultCount(); ++i) {
      if (node->result(i)->tensor()) memory_.makeRoot(node->result(i)).frozen = !fresh;
    }
  }

  void freeze(const Value* value, bool fresh) {
    if (!fresh && memory_.follows(value)) memory_.rootOf(value).frozen = true;
  }

  // True if what the body returns is memory of its own.
  bool visitBody(ir::Region* body, Node* owner) {
    bool fresh = true;
    std::vector<std::pair<Value*, Value*>> outer;
    for (Node* node = body->first(); node; node = node->next()) {
      for (ir::Region* inner : node->regions()) fresh &= visitBody(inner, owner);
      if (node->isReturn()) {
        for (const ir::Use& use : node->operands()) {
          const Node* def = use.value->def();
          fresh &= def && def->region() == body && ops::of(def) &&
                   ops::sharing(*def, use.value->index()) == ops::Sharing::None;
        }
      } else if (node->regions().empty()) {
        if (!ops::of(node)) throw NotFunctional{"a body uses an operator that is not in the table"};
        if (writes(*node)) throw NotFunctional{"a body writes"};
      }
      for (size_t i = 0; i < node->operandCount(); ++i) {
        Value* recorded = node->operand(i);
        if (!memory_.follows(recorded)) continue;
        memory_.markRead(recorded);
        outer.emplace_back(recorded, nullptr);
        Value* now = memory_.contents(recorded, owner);
        if (now != recorded) graph_.setOperand(node, i, now);
      }
    }
    for (auto [value, unused] : outer) freeze(value, fresh);
    return fresh;
  }

  // ---- operators that write ----

  // A copy into an input at the end, and an input that is given other strides there, stay.
  bool keep(Node* node) {
    const Value* into = recorded_[0];
    if (!memory_.follows(into)) return false;
    ProgramMemory::Root& root = memory_.rootOf(into);
    if (root.written || !root.original->isParameter() || root.frozen) return false;
    bool metadata = ops::of(node)->cost == ops::Cost::View;
    if (metadata && !memory_.inputOf(into)) return false;
    updateOperands(node);
    if (!metadata) {
      replace(node, 0, recorded_[0]);
      return true;
    }
    memory_.makeView(node, 0, recorded_[0]);
    memory_.setInput(node->result(), memory_.inputOf(into));
    return true;
  }

  // The tensor sees the same memory otherwise: a view from here on. An input is changed at the end.
  void visitMetadata(Node* node, const ops::Operator& view) {
    SmallVec<Arg, 8> args(node->args());
    becomeView(node, view, args);
  }

  void becomeView(Node* node, const ops::Operator& op, SmallVec<Arg, 8>& args) {
    Value* recorded = recorded_[0];
    if (sameMemory(*recorded->tensor(), *node->result()->tensor())) {
      replace(node, 0, recorded);
      return graph_.erase(node);
    }
    if (!tryBecomeView(node, op, args)) throw NotFunctional{"inference refuses the view that it becomes"};
  }

  bool tryBecomeView(Node* node, const ops::Operator& op, SmallVec<Arg, 8>& args) {
    Value* recorded = recorded_[0];
    Value* base = op.qualified == "aten::as_strided" ? memory_.storageOf(recorded) : recorded;
    if (base != recorded && args[3].isNone()) args[3] = Arg::symInt(recorded->tensor()->offset);
    args[0] = Arg::value(memory_.contents(base, node));
    ops::Inferred inferred = ops::infer(op, graph_.context(), args);
    if (!inferred.ok() || !sameMemory(*ir::asTensor(inferred.results[0]), *node->result()->tensor())) return false;
    ops::Builder build(graph_, node->region(), node, node->origin());
    Node* view = build.insert(op, args, inferred.results);
    memory_.makeView(view, 0, base);
    replace(node, 0, view->result());
    if (Value* input = memory_.inputOf(recorded)) {
      memory_.setInput(view->result(), input);
      geometryWrites_.push_back(node);
    } else {
      graph_.erase(node);
    }
    return true;
  }

  // resize_ and set_.
  void visitStorage(Node* node, const ops::Operator& op) {
    Value* recorded = recorded_[0];
    if (op.has(ops::kMayAlias)) {
      if (memory_.inputOf(recorded)) throw NotFunctional{"an input would see other memory"};
      if (recorded_.size() == 1) return becomeRoot(node);
      Value* source = recorded_[1];
      if (!source->tensor()) throw NotFunctional{"the memory it would see is not that of a tensor"};
      if (!sameMemory(*source->tensor(), *node->result()->tensor()))
        throw NotFunctional{"the bits of the tensors differ"};
      ops::Builder build(graph_, node->region(), node, node->origin());
      Value* view = build.tryCall("aten::alias", {Arg::value(memory_.contents(source, node))});
      if (!view) throw NotFunctional{"inference refuses the view that it becomes"};
      memory_.makeView(view->def(), 0, source);
      replace(node, 0, view);
      return graph_.erase(node);
    }
    const ir::TensorType& type = *node->result()->tensor();
    if (sameMemory(type, *recorded->tensor())) {
      replace(node, 0, recorded);
      return graph_.erase(node);
    }
    SmallVec<Arg, 8> sizes, strides;
    for (sym::Int size : type.sizes()) sizes.push_back(Arg::symInt(size));
    for (sym::Int stride : type.strides()) strides.push_back(Arg::symInt(stride));
    SmallVec<Arg, 8> args = {Arg(), Arg::list(sizes), Arg::list(strides), Arg::symInt(type.offset)};
    if (tryBecomeView(node, *ops::find("aten::as_strided"), args)) return;
    requireEmpty(recorded);
    becomeRoot(node);
  }

  // Only a tensor without elements, which nothing else sees, can get more.
  void requireEmpty(Value* value) {
    bool empty = false;
    for (sym::Int size : value->tensor()->sizes()) empty |= size.isConst(0);
    if (memory_.rootOf(value).original->isParameter()) throw NotFunctional{"an input would get more memory"};
    if (!empty || memory_.isView(value)) throw NotFunctional{"a tensor with elements would get more memory"};
  }

  Value* uninitialized(Node* position, const ir::TensorType& type) {
    SmallVec<Arg, 8> sizes, strides;
    for (sym::Int size : type.sizes()) sizes.push_back(Arg::symInt(size));
    for (sym::Int stride : type.strides()) strides.push_back(Arg::symInt(stride));
    ops::Builder build(graph_, position->region(), position, position->origin());
    Value* made = build.tryCall("aten::empty_strided", {Arg::list(sizes), Arg::list(strides), Arg::dtype(type.dtype),
                                                        Arg::none(), Arg::device(type.device), Arg::none()});
    if (!made || !sameMemory(*made->tensor(), type)) throw NotFunctional{"its new memory cannot be made"};
    return made;
  }

  void becomeRoot(Node* node) {
    Value* made = uninitialized(node, *node->result()->tensor());
    memory_.makeRoot(made);
    replace(node, 0, made);
    graph_.erase(node);
  }

  // A tensor that is written, and the result that is the same tensor afterwards.
  struct Target {
    Value* tensor;
    Value* result = nullptr;
    bool resized() const { return result && !sameMemory(*result->tensor(), *tensor->tensor()); }
  };

  // The recorded values in an argument.
  std::span<Value* const> recordedIn(const Node& node, size_t argument) const {
    size_t first = 0;
    for (size_t i = 0; i < argument; ++i) first += countValues(node.arg(i));
    return std::span<Value* const>(recorded_).subspan(first, countValues(node.arg(argument)));
  }

  void findTargets(const Node& node, const ops::Operator& op) {
    targets_.clear();
    fresh_.clear();
    SmallVec<size_t, 4> firstOf(node.args().size() + 1, 0);
    for (size_t i = 0; i < node.args().size(); ++i) {
      firstOf[i] = targets_.size();
      if (!(op.writes >> i & 1)) continue;
      for (Value* value : recordedIn(node, i)) {
        if (!memory_.follows(value)) throw NotFunctional{"a tensor is written that is not followed"};
        targets_.push_back({value});
      }
    }
    firstOf[node.args().size()] = targets_.size();
    size_t at = 0;
    for (size_t r = 0; r < op.parsed.returns.size(); ++r) {
      bool list = op.parsed.returns[r].type.list;
      size_t count = list ? node.resultCount() - (op.parsed.returns.size() - 1) : 1;
      for (size_t k = 0; k < count && at < node.resultCount(); ++k, ++at) {
        const auto alias = op.resultAlias[r];
        if (alias < 0) {
          fresh_.push_back(node.result(at));
          continue;
        }
        size_t target = firstOf[static_cast<size_t>(alias)] + k;
        if (target >= firstOf[static_cast<size_t>(alias) + 1] || !node.result(at)->tensor()) {
          throw NotFunctional{"a result is not recorded as the tensor that it writes"};
        }
        targets_[target].result = node.result(at);
      }
    }
  }

  void visitWrite(Node* node, const ops::Operator& op) {
    findTargets(*node, op);
    for (const Target& target : targets_) {
      if (target.resized()) requireEmpty(target.tensor);
    }
    if (writeByValue(node, op)) return;
    writeInPlace(node);
  }

  // Several tensors are written one after the other: what one write changes, the next may read.
  bool shareMemory() {
    if (targets_.size() < 2) return false;
    ++mark_;
    for (const Target& target : targets_) {
      ProgramMemory::Root& root = memory_.rootOf(target.tensor);
      if (root.mark == mark_) return true;
      root.mark = mark_;
    }
    size_t seen = 0;
    for (const Value* value : recorded_) seen += memory_.follows(value) && memory_.rootOf(value).mark == mark_;
    return seen != targets_.size();
  }

  Arg nowOf(const Arg& arg, Node* position) {
    if (arg.isValue()) return Arg::value(memory_.contents(arg.toValue(), position));
    if (!arg.isList() || countValues(arg) == 0) return arg;
    std::span<Arg> items = scratch_.copy(arg.toList());
    for (Arg& item : items) item = nowOf(item, position);
    return Arg::list(items);
  }

  bool writeByValue(Node* node, const ops::Operator& op) {
    const ops::FunctionalForm& form = ops::functionalForm(op);
    if (!form.op || shareMemory()) return false;
    for (const Target& target : targets_) {
      if (!target.resized() && !memory_.canWrite(target.tensor)) return false;
    }
    Arena::Mark mark = scratch_.mark();
    SmallVec<Arg, 8> args;
    for (size_t i = 0; i < form.arguments.size(); ++i) {
      int from = form.arguments[i];
      args.push_back(from >= 0 ? nowOf(node->arg(static_cast<size_t>(from)), node)
                               : form.op->parsed.arguments[i].defaultValue.value_or(Arg()));
    }
    ops::Inferred inferred = ops::infer(*form.op, graph_.context(), args);
    bool fits = inferred.ok() && fitsTargets(op, inferred.results);
    Node* functional = nullptr;
    if (fits) {
      functional = ops::Builder(graph_, node->region(), node, node->origin()).insert(*form.op, args, inferred.results);
    }
    scratch_.reset(mark);
    if (!fits) return false;
    std::vector<ProgramMemory::Write> prepared;
    for (size_t i = 0; i < targets_.size(); ++i) {
      Value* updated = functional->result(fresh_.size() + i);
      if (targets_[i].resized()) {
        adopt(targets_[i].result, updated, node);
        continue;
      }
      std::optional<ProgramMemory::Write> write = memory_.prepare(targets_[i].tensor, updated, node);
      if (write) {
        prepared.push_back(std::move(*write));
      } else if (op.isRandom() || i > 0) {
        throw NotFunctional{"what it writes cannot be carried back to the tensor's memory"};
      } else {
        discard(functional, node);
        return false;
      }
    }
    markRead();
    for (const ProgramMemory::Write& write : prepared) memory_.commit(write);
    for (size_t i = 0; i < fresh_.size(); ++i) {
      if (functional->result(i)->tensor()) memory_.makeRoot(functional->result(i));
      graph_.replaceAllUses(fresh_[i], functional->result(i));
    }
    aliasResults();
    graph_.erase(node);
    return true;
  }

  // What was made of a functional form that does not serve after all; views made anew on the way stay.
  void discard(Node* functional, const Node* end) {
    std::vector<Node*> made = {functional};
    for (Node* node = functional->next(); node != end; node = node->next()) {
      bool follows = std::any_of(node->operands().begin(), node->operands().end(), [&](const ir::Use& use) {
        return std::find(made.begin(), made.end(), use.value->def()) != made.end();
      });
      if (follows) made.push_back(node);
    }
    while (!made.empty()) {
      graph_.erase(made.back());
      made.pop_back();
    }
  }

  // Whether what the functional form computes is, element by element, what the operator would write.
  bool fitsTargets(const ops::Operator& op, std::span<const ir::Type* const> results) const {
    if (results.size() != fresh_.size() + targets_.size()) return false;
    for (size_t i = 0; i < fresh_.size(); ++i) {
      if (fresh_[i]->tensor() && !ir::asTensor(results[i])) return false;
    }
    for (size_t i = 0; i < targets_.size(); ++i) {
      const ir::TensorType* computed = ir::asTensor(results[fresh_.size() + i]);
      const ir::TensorType& target = *(targets_[i].resized() ? targets_[i].result : targets_[i].tensor)->tensor();
      if (!computed || computed->rank != target.rank) return false;
      // Accumulation may be in the target's dtype.
      if (computed->dtype != target.dtype && op.cost != ops::Cost::Pointwise) return false;
      // Numbers are drawn in the order of memory.
      for (size_t d = 0; op.isRandom() && d < target.rank; ++d) {
        if (!computed->stride(d).same(target.stride(d))) return false;
      }
    }
    return true;
  }

  // out= gave an empty tensor the memory it needs: another tensor from here on.
  void adopt(Value* result, Value* updated, Node* position) {
    if (!ops::sameSizes(updated->tensor()->sizes(), result->tensor()->sizes())) {
      throw NotFunctional{"its result is recorded in other sizes than it has"};
    }
    if (!sameMemory(*updated->tensor(), *result->tensor())) {
      Value* made = uninitialized(position, *result->tensor());
      ops::Builder build(graph_, position->region(), position, position->origin());
      updated = build.tryCall("aten::copy", {Arg::value(made), Arg::value(updated), Arg::boolean(false)});
      if (!updated || !sameMemory(*updated->tensor(), *result->tensor())) {
        throw NotFunctional{"its layout cannot be kept"};
      }
    }
    memory_.makeRoot(updated);
    graph_.replaceAllUses(result, updated);
  }

  // A result that is one of the written tensors is that tensor from here on.
  void aliasResults() {
    for (const Target& target : targets_) {
      if (target.result && !target.resized()) graph_.replaceAllUses(target.result, target.tensor);
    }
  }

  // The operator itself, on memory that nothing else sees.
  void writeInPlace(Node* node) {
    for (const Target& target : targets_) {
      if (!target.resized()) memory_.makePrivate(target.tensor, node);
    }
    ++mark_;
    for (const Target& target : targets_) memory_.rootOf(target.tensor).mark = mark_;
    updateOperands(node);
    for (const Value* value : recorded_) {
      if (memory_.follows(value) && memory_.rootOf(value).mark != mark_) memory_.markRead(value);
    }
    for (Value* fresh : fresh_) {
      if (fresh->tensor()) memory_.makeRoot(fresh);
    }
    for (const Target& target : targets_) {
      if (target.resized()) memory_.makeRoot(target.result);
    }
    aliasResults();
  }

  // ---- the end ----

  void finish(Node* end) {
    memory_.writeBack(end);
    for (size_t i = 0; i < end->operandCount(); ++i) {
      Value* operand = end->operand(i);
      if (memory_.follows(operand) && memory_.inputOf(operand)) continue;
      Value* now = memory_.returned(operand, end);
      if (now != operand) graph_.setOperand(end, i, now);
    }
    // Inputs get the sizes and strides that they were given, one after the other.
    std::vector<Value*> last(graph_.top()->parameters().size());
    for (Node* node : geometryWrites_) {
      Value* input = memory_.inputOf(node->operand(0));
      SAKER_CHECK(input, "only inputs are given their strides at the end");
      Value*& now = last[input->index()];
      graph_.moveBefore(node, end);
      graph_.setOperand(node, 0, now ? now : input);
      now = node->result();
    }
    for (size_t i = 0; i < end->operandCount(); ++i) {
      Value* operand = end->operand(i);
      Value* input = memory_.follows(operand) ? memory_.inputOf(operand) : nullptr;
      if (!input) continue;
      if (Value* now = last[input->index()]) graph_.setOperand(end, i, now);
    }
  }

  ir::Graph& graph_;
  ProgramMemory memory_;
  Arena scratch_;
  const Node* at_ = nullptr;
  bool unknownReadOnly_;
  Node* epilogue_ = nullptr;
  bool inEpilogue_ = false;
  std::vector<Value*> recorded_;  // the operands of the node being visited, as recorded
  std::vector<Target> targets_;   // what it writes, in the order of the arguments
  std::vector<Value*> fresh_;     // its results that are no arguments
  std::vector<Node*> geometryWrites_;
  uint32_t mark_ = 0;
};

std::string reasonAt(const Node* node, const std::string& reason) {
  if (!node || node->isReturn()) return reason;
  std::string text = node->op()->qualified + ": " + reason;
  if (const ir::Location* location = node->location()) {
    text += " (" + std::string(location->file) + ":" + std::to_string(location->line) + ")";
  }
  return text;
}

// They are about the views and writes of a recording: of a functional program the caller sees neither.
void dropRecordingMarks(ir::Graph& graph, ir::Region* region) {
  for (Node* node = region->first(); node; node = node->next()) {
    ir::Attributes known = node->attributes();
    known.shown = known.ownVersion = false;
    graph.setAttributes(node, known);
    for (ir::Region* body : node->regions()) dropRecordingMarks(graph, body);
  }
}

Failure runOn(ir::Graph& graph, bool unknownReadOnly) {
  ir::Graph::Checkpoint before = graph.checkpoint();
  sym::Context::Checkpoint known = graph.context().symbols().checkpoint();
  Functionalizer pass(graph, unknownReadOnly);
  Failure failure;
  try {
    dropRecordingMarks(graph, graph.top());
    pass.run();
  } catch (const NotFunctional& found) {
    failure = reasonAt(pass.at(), found.reason);
  } catch (const sym::Undecided& undecided) {
    failure = reasonAt(pass.at(), undecided.what());
  } catch (const sym::Overflow& overflow) {
    failure = reasonAt(pass.at(), overflow.what());
  }
  if (!failure) {
    graph.commit(before);
    return failure;
  }
  graph.rollback(before);
  graph.context().symbols().rollback(known);
  return failure;
}

}  // namespace

Failure functionalize(ir::Graph& graph) { return runOn(graph, false); }

Failure functionalizeRecorded(ir::Graph& graph) { return runOn(graph, true); }

}  // namespace saker::passes
