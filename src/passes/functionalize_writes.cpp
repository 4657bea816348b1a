// Operators that write, in a program that is made functional: their functional forms, or they themselves on memory that
// nothing else sees; and those that change what a tensor sees of its memory.
#include <algorithm>

#include "ops/infer.h"
#include "ops/shape.h"
#include "passes/functionalizer.h"

namespace saker::passes {

using ir::Arg;
using ir::Node;
using ir::Value;

namespace {

size_t countValues(const Arg& arg) {
  if (!arg.isList()) return arg.isValue();
  size_t count = 0;
  for (const Arg& item : arg.toList()) count += countValues(item);
  return count;
}

}  // namespace

// A copy into an input at the end, and an input that is given other strides there, stay.
bool Functionalizer::keep(Node* node) {
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
void Functionalizer::visitMetadata(Node* node, const ops::Operator& view) {
  SmallVec<Arg, 8> args(node->args());
  becomeView(node, view, args);
}

void Functionalizer::becomeView(Node* node, const ops::Operator& op, SmallVec<Arg, 8>& args) {
  Value* recorded = recorded_[0];
  requireOwn(recorded);
  if (sameMemory(*recorded->tensor(), *node->result()->tensor())) {
    replace(node, 0, recorded);
    return graph_.erase(node);
  }
  if (!tryBecomeView(node, op, args)) throw NotFunctional{"inference refuses the view that it becomes"};
}

bool Functionalizer::tryBecomeView(Node* node, const ops::Operator& op, SmallVec<Arg, 8>& args) {
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
void Functionalizer::visitStorage(Node* node, const ops::Operator& op) {
  Value* recorded = recorded_[0];
  requireOwn(recorded);
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
void Functionalizer::requireEmpty(Value* value) {
  bool empty = false;
  for (sym::Int size : value->tensor()->sizes()) empty |= size.isConst(0);
  if (memory_.rootOf(value).original->isParameter()) throw NotFunctional{"an input would get more memory"};
  if (!empty || memory_.isView(value)) throw NotFunctional{"a tensor with elements would get more memory"};
}

Value* Functionalizer::uninitialized(Node* position, const ir::TensorType& type) {
  SmallVec<Arg, 8> sizes, strides;
  for (sym::Int size : type.sizes()) sizes.push_back(Arg::symInt(size));
  for (sym::Int stride : type.strides()) strides.push_back(Arg::symInt(stride));
  ops::Builder build(graph_, position->region(), position, position->origin());
  Value* made = build.tryCall("aten::empty_strided", {Arg::list(sizes), Arg::list(strides), Arg::dtype(type.dtype),
                                                      Arg::none(), Arg::device(type.device), Arg::none()});
  if (!made || !sameMemory(*made->tensor(), type)) throw NotFunctional{"its new memory cannot be made"};
  return made;
}

void Functionalizer::becomeRoot(Node* node) {
  Value* made = uninitialized(node, *node->result()->tensor());
  memory_.makeRoot(made);
  replace(node, 0, made);
  graph_.erase(node);
}

// The recorded values in an argument.
std::span<Value* const> Functionalizer::recordedIn(const Node& node, size_t argument) const {
  size_t first = 0;
  for (size_t i = 0; i < argument; ++i) first += countValues(node.arg(i));
  return std::span<Value* const>(recorded_).subspan(first, countValues(node.arg(argument)));
}

void Functionalizer::findTargets(const Node& node, const ops::Operator& op) {
  targets_.clear();
  fresh_.clear();
  SmallVec<size_t, 4> firstOf(node.args().size() + 1, 0);
  for (size_t i = 0; i < node.args().size(); ++i) {
    firstOf[i] = targets_.size();
    if (!op.writesArgument(i)) continue;
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

void Functionalizer::visitWrite(Node* node, const ops::Operator& op) {
  findTargets(*node, op);
  for (const Target& target : targets_) {
    if (target.resized()) requireEmpty(target.tensor);
  }
  if (writeByValue(node, op)) return;
  writeInPlace(node);
}

// Several tensors are written one after the other: what one write changes, the next may read.
bool Functionalizer::shareMemory() {
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

Arg Functionalizer::nowOf(const Arg& arg, Node* position) {
  if (arg.isValue()) return Arg::value(memory_.contents(arg.toValue(), position));
  if (!arg.isList() || countValues(arg) == 0) return arg;
  std::span<Arg> items = scratch_.copy(arg.toList());
  for (Arg& item : items) item = nowOf(item, position);
  return Arg::list(items);
}

bool Functionalizer::writeByValue(Node* node, const ops::Operator& op) {
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
void Functionalizer::discard(Node* functional, const Node* end) {
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
bool Functionalizer::fitsTargets(const ops::Operator& op, std::span<const ir::Type* const> results) const {
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
void Functionalizer::adopt(Value* result, Value* updated, Node* position) {
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
void Functionalizer::aliasResults() {
  for (const Target& target : targets_) {
    if (target.result && !target.resized()) graph_.replaceAllUses(target.result, target.tensor);
  }
}

// The operator itself, on memory that nothing else sees.
void Functionalizer::writeInPlace(Node* node) {
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

}  // namespace saker::passes
