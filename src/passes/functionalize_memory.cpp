#include "passes/functionalize_memory.h"

#include "ops/shape.h"
#include "ops/view_inverse.h"
#include "support/check.h"

namespace saker::passes {

using ir::Arg;
using ir::Node;
using ir::Value;

bool sameMemory(const ir::TensorType& a, const ir::TensorType& b) {
  if (&a == &b) return true;
  if (a.dtype != b.dtype || a.device != b.device || a.rank != b.rank || !a.offset.same(b.offset)) return false;
  if (a.flags.conj != b.flags.conj || a.flags.neg != b.flags.neg) return false;
  for (size_t i = 0; i < 2 * size_t{a.rank}; ++i) {
    if (!a.dims[i].same(b.dims[i])) return false;
  }
  return true;
}

namespace {

bool sameUnits(const ir::TensorType& a, const ir::TensorType& b) {
  return a.dtype == b.dtype && a.flags.conj == b.flags.conj && a.flags.neg == b.flags.neg;
}

// Every address from the start of the memory to its last element is an element.
bool coversMemory(const ir::TensorType& type) {
  if (!type.offset.isConst(0)) return false;
  return type.symbolic ? ops::isRowMajor(type) : ops::isNonOverlappingAndDense(type);
}

// The memory under a conj or neg bit; twice gives the tensor again.
Value* withoutBits(ops::Builder& build, const ir::TensorType& type, Value* value) {
  if (value && type.flags.conj) value = build.tryCall("aten::_conj", {Arg::value(value)});
  if (value && type.flags.neg) value = build.tryCall("aten::_neg_view", {Arg::value(value)});
  return value;
}

// `updated` in the dtype and layout of `now`, which it replaces, with the bytes between the elements of `now`.
Value* inLayoutOf(ops::Builder& build, Value* now, Value* updated) {
  const ir::TensorType& type = *now->tensor();
  if (sameMemory(*updated->tensor(), type)) return updated;
  Value* memory = withoutBits(build, type, now);
  updated = withoutBits(build, type, updated);
  if (!memory || !updated) return nullptr;
  Value* copied = build.tryCall("aten::copy", {Arg::value(memory), Arg::value(updated), Arg::boolean(false)});
  copied = withoutBits(build, type, copied);
  return copied && sameMemory(*copied->tensor(), type) ? copied : nullptr;
}

Value* cloneOf(ops::Builder& build, Value* now) {
  const ir::TensorType& type = *now->tensor();
  if (coversMemory(type) && !type.flags.conj && !type.flags.neg) {
    Value* clone = build.tryCall("aten::clone", {Arg::value(now), Arg::none()});
    if (clone && sameMemory(*clone->tensor(), type)) return clone;
  }
  Value* memory = withoutBits(build, type, now);
  if (!memory) return nullptr;
  Value* copied = build.tryCall("aten::copy", {Arg::value(memory), Arg::value(memory), Arg::boolean(false)});
  copied = withoutBits(build, type, copied);
  return copied && sameMemory(*copied->tensor(), type) ? copied : nullptr;
}

}  // namespace

ProgramMemory::Root& ProgramMemory::makeRoot(Value* value) {
  roots_.push_back({.original = value, .contents = value});
  Tensor& tensor = tensorOf(value);
  tensor.root = static_cast<uint32_t>(roots_.size());
  if (isInput(value)) tensor.input = value;
  return roots_.back();
}

void ProgramMemory::makeView(Node* node, size_t index, Value* base) {
  bool inStorage = ops::sharing(*node, index) == ops::Sharing::Storage;
  if (inStorage) base = storageOf(base);
  Value* result = node->result(index);
  uint32_t root = tensorOf(base).root;
  Tensor view{.root = root, .index = static_cast<uint32_t>(index), .parent = base, .view = node, .current = result};
  view.age = roots_[root - 1].age;
  view.beyond = inStorage && !coversMemory(*base->tensor());
  tensorOf(result) = view;
}

Value* ProgramMemory::storageOf(Value* value) {
  while (Value* parent = tensorOf(value).parent) {
    if (!sameUnits(*value->tensor(), *parent->tensor())) break;
    value = parent;
  }
  return value;
}

Value* ProgramMemory::contents(Value* value, Node* position) {
  if (!follows(value)) return value;
  const Root& root = rootOf(value);
  // Up to a tensor whose contents are known, and down again.
  chain_.clear();
  Value* now = nullptr;
  for (Value* at = value; !now; at = tensorOf(at).parent) {
    const Tensor& tensor = tensorOf(at);
    if (!tensor.parent) {
      now = root.contents;
    } else if (tensor.current && tensor.age == root.age) {
      now = tensor.current;
    } else {
      chain_.push_back(at);
    }
  }
  while (!chain_.empty()) {
    Value* at = chain_.back();
    chain_.pop_back();
    const Tensor tensor = tensorOf(at);
    ops::Builder build(graph_, position->region(), position, tensor.view->origin());
    now = ops::repeatView(build, *tensor.view, tensor.index, now);
    Tensor& made = change(at);
    made.current = now;
    made.age = root.age;
  }
  return now;
}

bool ProgramMemory::canWrite(const Value* target) {
  while (true) {
    const Tensor& tensor = tensorOf(target);
    if (!tensor.parent) return !ops::hasInternalOverlap(*target->tensor());
    if (ops::mayOverlap(*tensor.view, tensor.index)) return false;
    if (tensor.beyond && isView(tensor.parent)) return false;
    target = tensor.parent;
  }
}

void ProgramMemory::noteWrite(Root& root, const ir::Origin& origin) {
  if (root.frozen) throw NotFunctional{"memory is written that the results of a body may share"};
  if (!change(root).written && isInput(root.original)) {
    writtenInputs_.push_back(static_cast<uint32_t>(&root - roots_.data()));
  }
  root.written = true;
  root.lastWrite = origin;
}

void ProgramMemory::noteBeyond(Value* target) {
  if (!isInput(rootOf(target).original)) return;
  for (Value* at = target; tensorOf(at).parent; at = tensorOf(at).parent) {
    Tensor& tensor = tensorOf(at);
    if (tensor.beyond && inBody()) throw NotFunctional{"a body writes between the elements of an input"};
    if (tensor.beyond && !tensor.notedBeyond) beyond_.push_back(at);
    tensor.notedBeyond = tensor.beyond;
  }
}

std::optional<ProgramMemory::Write> ProgramMemory::prepare(Value* target, Value* updated, Node* position) {
  Write write{.seen = {}, .origin = position->origin()};
  ops::Builder build(graph_, position->region(), position, write.origin);
  const ir::TensorType& type = *target->tensor();
  if (updated->tensor()->dtype != type.dtype && (isView(target) || type.flags.conj || type.flags.neg)) {
    updated = build.tryCall("aten::_to_copy", {Arg::value(updated), Arg::dtype(type.dtype), Arg(), Arg(), Arg(),
                                               Arg::boolean(false), Arg()});
    if (!updated) return std::nullopt;
  }
  Value* at = target;
  for (; isView(at); at = tensorOf(at).parent) {
    write.seen.emplace_back(at, updated);
    const Tensor tensor = tensorOf(at);
    Value* base = contents(tensor.parent, position);
    updated = ops::invertView(build, *tensor.view, tensor.index, base, updated);
    if (!updated) return std::nullopt;
  }
  updated = inLayoutOf(build, rootOf(at).contents, updated);
  if (!updated) return std::nullopt;
  write.seen.emplace_back(at, updated);
  return write;
}

void ProgramMemory::commit(const Write& write) {
  Root& root = rootOf(write.seen.back().first);
  noteWrite(root, write.origin);
  noteBeyond(write.seen.front().first);
  root.contents = write.seen.back().second;
  root.live = false;
  root.read = false;
  ++root.age;
  // What was written is what is read next, where it is laid out as the view is; no bytes lie between its elements.
  for (auto [tensor, value] : write.seen) {
    if (!coversMemory(*tensor->tensor()) || !sameMemory(*tensor->tensor(), *value->tensor())) continue;
    Tensor& seen = change(tensor);
    seen.current = value;
    seen.age = root.age;
  }
}

void ProgramMemory::makePrivate(Value* target, Node* position) {
  Root& root = rootOf(target);
  noteBeyond(target);
  noteWrite(root, position->origin());
  // What was made outside of a body is not the body's to write.
  bool own = root.contents->region() == position->region() && !root.contents->isParameter();
  if (root.live && !root.read && own) return;
  ops::Builder build(graph_, position->region(), position, position->origin());
  Value* copy = cloneOf(build, root.contents);
  if (!copy) throw NotFunctional{"elements of a tensor that is written share addresses"};
  root.contents = copy;
  root.live = true;
  root.read = false;
  ++root.age;
}

// ---- bodies ----

ProgramMemory::Tensor& ProgramMemory::change(const Value* value) {
  Tensor& tensor = tensorOf(value);
  if (inBody()) changedTensors_.emplace_back(value->id(), tensor);
  return tensor;
}

ProgramMemory::Root& ProgramMemory::change(Root& root) {
  if (inBody()) changedRoots_.emplace_back(static_cast<size_t>(&root - roots_.data()), root);
  return root;
}

void ProgramMemory::enter() {
  scopes_.push_back({changedTensors_.size(), changedRoots_.size(), roots_.size(), writtenInputs_.size()});
}

void ProgramMemory::leave() {
  Scope scope = scopes_.back();
  scopes_.pop_back();
  for (; changedTensors_.size() > scope.tensors; changedTensors_.pop_back()) {
    tensors_[changedTensors_.back().first] = changedTensors_.back().second;
  }
  for (; changedRoots_.size() > scope.changed; changedRoots_.pop_back()) {
    auto& [index, before] = changedRoots_.back();
    before.frozen |= roots_[index].frozen;
    before.read |= roots_[index].read;
    roots_[index] = before;
  }
  writtenInputs_.resize(scope.writtenInputs);
}

void ProgramMemory::begin(const Value* tensor, Value* contents) {
  Root& root = change(rootOf(tensor));
  root.contents = contents;
  root.live = true;
  root.read = false;
  ++root.age;
}

void ProgramMemory::wrote(const Value* tensor, Value* contents, const ir::Origin& origin) {
  Root& root = rootOf(tensor);
  bool frozen = std::exchange(root.frozen, false);  // what the bodies wrote, they wrote before that
  noteWrite(root, origin);
  root.frozen = frozen;
  root.contents = contents;
  root.live = true;
  root.read = true;  // a branch may have given what was there before
  ++root.age;
}

void ProgramMemory::writeBack(Node* position) {
  auto copy = [&](Value* into, Value* from, const ir::Origin& origin) {
    ops::Builder build(graph_, position->region(), position, origin);
    if (!build.tryCall("aten::copy_", {Arg::value(into), Arg::value(from), Arg::boolean(false)})) {
      throw NotFunctional{"what was written cannot be copied into an input"};
    }
  };
  std::vector<Value*> outside;
  outside.reserve(beyond_.size());
  for (Value* view : beyond_) outside.push_back(contents(view, position));
  for (uint32_t index : writtenInputs_) {
    Root& root = roots_[index];
    copy(root.original, root.contents, root.lastWrite);
    root.contents = root.original;
    root.live = true;
    ++root.age;
  }
  for (size_t i = 0; i < beyond_.size(); ++i) {
    copy(contents(beyond_[i], position), outside[i], rootOf(beyond_[i]).lastWrite);
  }
}

Value* ProgramMemory::returned(Value* value, Node* position) {
  if (!follows(value)) return value;
  Root& root = rootOf(value);
  if (!root.live) {
    root.live = true;
    ++root.age;
  }
  return contents(value, position);
}

}  // namespace saker::passes
