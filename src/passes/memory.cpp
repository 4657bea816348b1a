#include "passes/memory.h"

#include <algorithm>

#include "ir/each_value.h"
#include "ops/control_flow.h"
#include "ops/effects.h"

namespace saker::passes {
namespace {

// Numbers share no memory. Anything else may hold a tensor.
bool hasMemory(const ir::Value* value) {
  return value->type()->kind == ir::TypeKind::Tensor || value->type()->kind >= ir::TypeKind::List;
}

}  // namespace

Memory::Memory(const ir::Graph& graph, Assumptions assumptions)
    : assumptions_(assumptions),
      parent_(graph.valueLimit() + 1),
      written_(parent_.size()),
      escapes_(parent_.size()),
      outside_(parent_.size()),
      writes_(graph.nodeLimit()),
      world_(graph.valueLimit()) {
  for (uint32_t i = 0; i < parent_.size(); ++i) parent_[i] = i;
  for (const ir::Value* input : graph.top()->parameters()) {
    if (!hasMemory(input)) continue;
    outside_[find(input->id())] = true;
    if (assumptions_.inputsShare) unite(input->id(), world_);
  }
  visit(graph.top());
  if (const ir::Node* end = graph.top()->terminator()) {
    for (const ir::Use& use : end->operands()) escapes_[find(use.value->id())] = true;
  }
}

uint32_t Memory::find(uint32_t id) const {
  while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
  return id;
}

void Memory::unite(uint32_t a, uint32_t b) {
  a = find(a);
  b = find(b);
  if (a == b) return;
  if (b < a) std::swap(a, b);
  parent_[b] = a;
  written_[a] = written_[a] || written_[b];
  escapes_[a] = escapes_[a] || escapes_[b];
  outside_[a] = outside_[a] || outside_[b];
}

bool Memory::visit(const ir::Region* region) {
  bool writes = false;
  for (const ir::Node* node = region->first(); node; node = node->next()) writes |= visit(node);
  return writes;
}

bool Memory::visit(const ir::Node* node) {
  if (node->isReturn()) return false;
  bool writes = false;
  const ops::Operator* op = ops::of(node);
  if (op && op->ownMemory && node->regions().empty() && !op->has(ops::kSetsStorage)) return false;
  if (op) {
    visitKnown(node);
    writes = ops::writes(*node);
  } else {
    writes = visitUnknown(node);
  }
  if (!node->regions().empty()) uniteRegions(node);
  for (const ir::Region* body : node->regions()) writes |= visit(body);
  return writes_[node->id()] = writes;
}

bool Memory::visitUnknown(const ir::Node* node) {
  using Unknown = Assumptions::Unknown;
  allKnown_ = false;
  if (assumptions_.unknown == Unknown::Nothing) return false;
  uint32_t with = world_;
  if (assumptions_.unknown == Unknown::ShareOperands) {
    for (size_t i = node->resultCount(); i-- > 0;) {
      if (hasMemory(node->result(i))) with = node->result(i)->id();
    }
    if (with == world_) return false;  // nothing comes out of it
  }
  for (const ir::Use& use : node->operands()) {
    if (hasMemory(use.value)) unite(use.value->id(), with);
  }
  for (size_t i = 0; i < node->resultCount(); ++i) {
    if (hasMemory(node->result(i))) unite(node->result(i)->id(), with);
  }
  if (assumptions_.unknown == Unknown::ShareOperands) return false;
  written_[find(world_)] = true;
  return true;
}

void Memory::visitKnown(const ir::Node* node) {
  ops::eachWritten(*node, [&](const ir::Value* value) { written_[find(value->id())] = true; });
  ops::eachShared(*node, [&](const ir::Value* result, const ir::Value* argument, bool) {
    if (!hasMemory(result) || (argument && !hasMemory(argument))) return;
    unite(argument ? argument->id() : world_, result->id());
  });
  if (!ops::of(node)->has(ops::kSetsStorage)) return;
  // A tensor may come to see the memory of another one.
  for (const ir::Use& use : node->operands()) {
    if (hasMemory(use.value)) unite(node->operand(0)->id(), use.value->id());
  }
}

// What goes into a body and what comes out of it: all of one class where the operator is not known.
void Memory::uniteRegions(const ir::Node* node) {
  if (ops::of(node)) {
    ops::eachEdge(*node, [&](const ir::Arg& from, const ir::Value* to) {
      ir::eachValue(from, [&](const ir::Value* value) {
        if (hasMemory(value) && hasMemory(to)) unite(value->id(), to->id());
      });
    });
    return;
  }
  uint32_t first = world_;
  bool found = false;
  auto add = [&](const ir::Value* value) {
    if (!hasMemory(value)) return;
    if (found) unite(first, value->id());
    first = value->id();
    found = true;
  };
  for (const ir::Use& use : node->operands()) add(use.value);
  for (size_t i = 0; i < node->resultCount(); ++i) add(node->result(i));
  for (const ir::Region* body : node->regions()) {
    for (const ir::Value* parameter : body->parameters()) add(parameter);
    if (const ir::Node* end = body->terminator()) {
      for (const ir::Use& use : end->operands()) add(use.value);
    }
  }
}

}  // namespace saker::passes
