// Branches and loops of a program that is made functional. A body may write what is around it: then the new contents
// are one more value that it returns, and one more that a loop carries; a branch that leaves them alone returns the old
// ones.
//
// Everything is passed by reference, so a result may be memory that is known by another name. Where it is always the
// same (forwardInvariants) the result is that tensor; otherwise neither may be written any more ("frozen").
#include <algorithm>

#include "ops/control_flow.h"
#include "ops/view_inverse.h"
#include "passes/bodies.h"
#include "passes/functionalizer.h"

namespace saker::passes {

using ir::Arg;
using ir::Node;
using ir::Value;

void Functionalizer::visitBodies(Node* node) {
  if (ops::isIf(*node) || ops::isLoop(*node) || ops::isCall(*node)) return visitKnownBodies(node);
  visitUnknownBodies(node);
}

void Functionalizer::freeze(const Value* value) {
  if (memory_.follows(value)) memory_.rootOf(value).frozen = true;
}

// ---- operators that the table does not know ----

// A body may read what is around it. What it returns may share memory with that.
void Functionalizer::visitUnknownBodies(Node* node) {
  bool fresh = true;
  for (ir::Region* body : node->regions()) fresh &= visitUnknownBody(body, node);
  // Loops of programs give memory of their own, whatever their bodies return.
  fresh |= ops::isScan(*node) || ops::isWhile(*node) || ops::isWhileBackward(*node);
  recorded_.clear();
  for (const ir::Use& use : node->operands()) recorded_.push_back(use.value);
  updateOperands(node);
  markRead();
  for (const Value* value : recorded_) {
    if (!fresh) freeze(value);
  }
  for (size_t i = 0; i < node->resultCount(); ++i) {
    if (node->result(i)->tensor()) memory_.makeRoot(node->result(i)).frozen = !fresh;
  }
}

// True if what the body returns is memory of its own.
bool Functionalizer::visitUnknownBody(ir::Region* body, Node* owner) {
  bool fresh = true;
  std::vector<Value*> outer;
  for (Node* node = body->first(); node; node = node->next()) {
    for (ir::Region* inner : node->regions()) fresh &= visitUnknownBody(inner, owner);
    if (node->isReturn()) {
      for (const ir::Use& use : node->operands()) {
        const Node* def = use.value->def();
        fresh &= def && def->region() == body && ops::of(def) && !ops::of(def)->bodies &&
                 ops::sharing(*def, use.value->index()) == ops::Sharing::None;
      }
    } else if (node->regions().empty()) {
      if (!ops::of(node)) throw NotFunctional{"a body uses an operator that is not in the table"};
      if (ops::writes(*node)) throw NotFunctional{"a body writes"};
    }
    for (size_t i = 0; i < node->operandCount(); ++i) {
      Value* recorded = node->operand(i);
      if (!memory_.follows(recorded)) continue;
      memory_.markRead(recorded);
      outer.push_back(recorded);
      Value* now = memory_.contents(recorded, owner);
      if (now != recorded) graph_.setOperand(node, i, now);
    }
  }
  for (const Value* value : outer) {
    if (!fresh) freeze(value);
  }
  return fresh;
}

// ---- branches and loops ----

namespace {

// Calls `f` with each node in the bodies of a node.
template <typename F>
void eachInner(const Node& node, F&& f) {
  for (const ir::Region* body : node.regions()) {
    for (Node* inner = body->first(); inner; inner = inner->next()) {
      f(*inner);
      eachInner(*inner, f);
    }
  }
}

bool runsAtLeastOnce(const Node& loop) {
  const Arg &trips = loop.arg(ops::kLoopTrips), &condition = loop.arg(ops::kLoopCondition);
  bool enters = condition.kind() == Arg::Kind::Bool && condition.toBool();
  return enters && (trips.isNone() || (trips.kind() == Arg::Kind::Int && trips.toInt() > 0));
}

// Nobody reads the result, and in a loop no trip what the one before it passed on: forwardInvariants() has found what
// it always is, or it is not needed.
bool isForwarded(const Node& node, size_t i) {
  if (node.result(i)->hasUses()) return false;
  return !ops::isLoop(node) || !ops::passedParameters(*node.regions()[0])[i]->hasUses();
}

}  // namespace

// The tensors around a node that its bodies may write, one for each memory.
std::vector<Value*> Functionalizer::writtenAround(const Node& node) {
  std::vector<Value*> found;
  eachInner(node, [&](Node& inner) {
    ops::eachWritten(inner, [&](Value* written) {
      eachBase(written, &node, [&](Value* base) {
        if (!memory_.follows(base) || isInside(base, &node)) return;
        Value* original = memory_.rootOf(base).original;
        if (std::find(found.begin(), found.end(), original) == found.end()) found.push_back(original);
      });
    });
  });
  return found;
}

// The same node, with one more result for each of these tensors; a loop also carries them.
Node* Functionalizer::passContents(Node* node, const std::vector<Value*>& written) {
  if (written.empty()) return node;
  bool loops = ops::isLoop(*node);
  std::vector<Arg> args(node->args().begin(), node->args().end());
  std::vector<const ir::Type*> results;
  std::vector<size_t> from;
  for (size_t i = 0; i < node->resultCount(); ++i) {
    results.push_back(node->result(i)->type());
    from.push_back(i);
  }
  for (Value* tensor : written) {
    Value* now = memory_.rootOf(tensor).contents;
    memory_.markRead(tensor);
    results.push_back(now->type());
    if (loops) args.push_back(Arg::value(now));
  }
  Node* made = rebuild(graph_, node, args, results, from);
  for (size_t i = 0; loops && i < written.size(); ++i) {
    graph_.addParameter(made->regions()[0], memory_.rootOf(written[i]).contents->type());
  }
  return made;
}

// Which input that is written later or has been: its contents are a value then, and no longer the input.
bool Functionalizer::isLost(const Value* value) {
  if (!memory_.follows(value)) return false;
  const ProgramMemory::Root& root = memory_.rootOf(value);
  return root.lost || (root.written && ProgramMemory::isInput(root.original));
}

void Functionalizer::visitKnownBodies(Node* node) {
  size_t own = node->resultCount();
  std::vector<Sharing> results(own);
  for (size_t i = 0; ops::isLoop(*node) && i < own; ++i) {
    if (!node->result(i)->tensor() || isForwarded(*node, i)) continue;
    results[i].frozen = !runsAtLeastOnce(*node);
    // What a loop carries is in its first trip what it was given, and later what its body returned.
    for (const Arg* carried : {&ops::passedArguments(*node)[i], &ops::returnedArguments(*node->regions()[0])[i]}) {
      if (!carried->isValue()) continue;
      eachBase(carried->toValue(), node, [&](Value* base) {
        freeze(base);
        results[i].lost |= isLost(base);
      });
    }
  }
  std::vector<Value*> written = writtenAround(*node);
  // What bodies read of memory that none of them writes is made once, in front of the node.
  eachInner(*node, [&](Node& inner) {
    for (const ir::Use& use : inner.operands()) {
      if (!memory_.follows(use.value) || isInside(use.value, node)) continue;
      memory_.markRead(use.value);
      bool changes = std::find(written.begin(), written.end(), memory_.rootOf(use.value).original) != written.end();
      if (!changes) memory_.contents(use.value, node);
    }
  });
  recorded_.clear();
  for (const ir::Use& use : node->operands()) recorded_.push_back(use.value);
  updateOperands(node);
  markRead();
  node = passContents(node, written);
  at_ = node;
  for (ir::Region* body : node->regions()) visitBody(body, written, results);
  at_ = node;
  for (size_t i = 0; i < own; ++i) {
    if (!node->result(i)->tensor() || isForwarded(*node, i)) continue;
    ProgramMemory::Root& root = memory_.makeRoot(node->result(i));
    root.frozen = results[i].frozen;
    root.lost = results[i].lost;
  }
  for (size_t i = 0; i < written.size(); ++i) memory_.wrote(written[i], node->result(own + i), node->origin());
}

void Functionalizer::visitBody(ir::Region* body, const std::vector<Value*>& written, std::vector<Sharing>& results) {
  const Node& node = *body->owner();
  size_t own = results.size();
  memory_.enter();
  std::span<Value* const> parameters = ops::passedParameters(*body);
  for (size_t i = 0; ops::isLoop(node) && i < own; ++i) {
    if (parameters[i]->tensor() && parameters[i]->hasUses()) memory_.makeRoot(parameters[i]).frozen = true;
  }
  for (size_t i = 0; ops::isLoop(node) && i < written.size(); ++i) memory_.begin(written[i], parameters[own + i]);
  visitAll(body);
  Node* end = body->terminator();
  at_ = end;
  std::vector<Value*> returned(own);  // tensors that someone reads
  for (size_t i = 0; i < own; ++i) {
    const Arg& arg = ops::returnedArguments(*body)[i];
    if (arg.isValue() && memory_.follows(arg.toValue()) && !isForwarded(node, i)) returned[i] = arg.toValue();
  }
  for (size_t i = 0; i < own; ++i) {
    if (!returned[i]) continue;
    const ProgramMemory::Root& root = memory_.rootOf(returned[i]);
    bool alone = std::count_if(returned.begin(), returned.end(),
                               [&](const Value* other) { return other && &memory_.rootOf(other) == &root; }) == 1;
    if (alone && memory_.isFromBody(returned[i]) && !memory_.isView(returned[i]) && !root.frozen) continue;
    results[i].frozen = true;
    results[i].lost |= isLost(returned[i]);
    freeze(returned[i]);
  }
  for (size_t i = 0; i < end->operandCount(); ++i) {
    Value* now = memory_.contents(end->operand(i), end);
    if (now != end->operand(i)) graph_.setOperand(end, i, now);
  }
  std::vector<Arg> args(end->args().begin(), end->args().end());
  for (const Value* tensor : written) args.push_back(Arg::value(memory_.rootOf(tensor).contents));
  if (!written.empty()) graph_.setArgs(end, args);
  memory_.leave();
}

// A body may not give a tensor from outside other sizes, strides or memory: after it, only one of two is true.
void Functionalizer::requireOwn(const Value* value) {
  if (memory_.inBody() && !memory_.isFromBody(value)) {
    throw NotFunctional{"a body gives a tensor from outside other sizes, strides or memory"};
  }
}

}  // namespace saker::passes
