// Makes a recorded program functional: operators that write become operators that return the new contents, and what was
// written to an input is copied into it at the end. docs/functionalize.md says what is kept and what cannot be done;
// functionalize_memory.h how memory is followed.
#include "ops/view_inverse.h"
#include "passes/bodies.h"
#include "passes/functionalizer.h"
#include "passes/pass.h"
#include "support/check.h"

namespace saker::passes {

using ir::Node;
using ir::Value;

namespace {

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

}  // namespace

void Functionalizer::run() {
  ir::Region* top = graph_.top();
  if (!findWork(top)) return;
  for (Value* input : top->parameters()) {
    if (input->tensor()) memory_.makeRoot(input);
  }
  forwardInvariants(graph_, top);
  visitAll(top);
  at_ = top->terminator();
  finish(top->terminator());
}

// Up to the return.
void Functionalizer::visitAll(ir::Region* region) {
  for (Node* node = region->first(); !node->isReturn();) {
    Node* next = node->next();
    at_ = node;
    inEpilogue_ |= node == epilogue_;
    visit(node);
    node = next;
  }
}

bool Functionalizer::findWork(ir::Region* top) {
  Node* node = top->terminator();
  if (!node) throw NotFunctional{"the graph does not end in return"};
  epilogue_ = node;
  for (; node->prev() && isEpilogue(*node->prev()); node = node->prev()) epilogue_ = node->prev();
  for (node = top->first(); node != epilogue_; node = node->next()) {
    ops::Effects effects = ops::effectsOf(*node);
    if (effects.unknown || effects.writes) return true;
  }
  return false;
}

void Functionalizer::visit(Node* node) {
  const ops::Operator* op = ops::of(node);
  if (!node->regions().empty()) return visitBodies(node);
  if (!op && !unknownReadOnly_) {
    throw NotFunctional{"the operator is not in the table: what it writes is not known"};
  }
  recorded_.clear();
  for (const ir::Use& use : node->operands()) recorded_.push_back(use.value);
  if (!op) return visitUnknown(node);
  if (!ops::writes(*node)) return visitValue(node);
  if (op->cost == ops::Cost::View && (node->resultCount() != 1 || !node->result()->tensor())) {
    throw NotFunctional{"its result is not recorded as a tensor"};
  }
  if (inEpilogue_ && keep(node)) return;
  if (const ops::Operator* view = ops::viewForm(*op)) return visitMetadata(node, *view);
  if (op->cost == ops::Cost::View) return visitStorage(node, *op);
  visitWrite(node, *op);
}

void Functionalizer::updateOperands(Node* node) {
  for (size_t i = 0; i < node->operandCount(); ++i) {
    Value* now = memory_.contents(recorded_[i], node);
    if (now != node->operand(i)) graph_.setOperand(node, i, now);
  }
}

void Functionalizer::markRead() {
  for (const Value* value : recorded_) memory_.markRead(value);
}

void Functionalizer::visitUnknown(Node* node) {
  updateOperands(node);
  for (size_t i = 0; i < node->resultCount(); ++i) {
    if (node->result(i)->tensor()) memory_.makeRoot(node->result(i));
  }
  markRead();
}

void Functionalizer::visitValue(Node* node) {
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
void Functionalizer::visitInStorage(Node* node) {
  Value* storage = memory_.storageOf(recorded_[0]);
  if (storage == recorded_[0] || memory_.rootOf(storage).live) return memory_.makeView(node, 0, storage);
  ops::Builder build(graph_, node->region(), node, node->origin());
  Value* view = ops::repeatView(build, *node, 0, memory_.contents(storage, node));
  memory_.makeView(view->def(), 0, storage);
  replace(node, 0, view);
  graph_.erase(node);
}

void Functionalizer::finish(Node* end) {
  memory_.writeBack(end);
  for (size_t i = 0; i < end->operandCount(); ++i) {
    Value* operand = end->operand(i);
    if (memory_.follows(operand) && memory_.inputOf(operand)) continue;
    if (memory_.follows(operand) && memory_.rootOf(operand).lost) {
      throw NotFunctional{"a result of a body that leaves the program may be an input that is written"};
    }
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

namespace {

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
