#include "passes/memory.h"

#include "ops/control_flow.h"
#include "ops/operator.h"

namespace saker::passes {
namespace {

template <typename F>
void eachValue(const ir::Arg& arg, F&& f) {
  if (arg.isValue()) {
    f(arg.toValue());
  } else if (arg.isList()) {
    for (const ir::Arg& element : arg.toList()) eachValue(element, f);
  }
}

// Numbers share no memory. Anything else may hold a tensor.
bool hasMemory(const ir::Value* value) {
  return value->type()->kind == ir::TypeKind::Tensor || value->type()->kind >= ir::TypeKind::List;
}

}  // namespace

Memory::Memory(const ir::Graph& graph)
    : parent_(graph.valueLimit() + 1),
      written_(parent_.size()),
      escapes_(parent_.size()),
      writes_(graph.nodeLimit()),
      world_(graph.valueLimit()) {
  for (uint32_t i = 0; i < parent_.size(); ++i) parent_[i] = i;
  // Inputs may share memory with each other.
  for (const ir::Value* input : graph.top()->parameters()) {
    if (hasMemory(input)) unite(input->id(), world_);
  }
  visit(graph.top());
  if (const ir::Node* end = graph.top()->terminator()) {
    for (const ir::Use& use : end->operands()) escapes_[find(use.value->id())] = true;
  }
}

uint32_t Memory::find(uint32_t id) {
  while (parent_[id] != id) id = parent_[id] = parent_[parent_[id]];
  return id;
}

void Memory::unite(uint32_t a, uint32_t b) {
  a = find(a);
  b = find(b);
  if (a == b) return;
  parent_[b] = a;
  written_[a] = written_[a] || written_[b];
  escapes_[a] = escapes_[a] || escapes_[b];
}

bool Memory::visit(const ir::Region* region) {
  bool writes = false;
  for (const ir::Node* node = region->first(); node; node = node->next()) writes |= visit(node);
  return writes;
}

bool Memory::visit(const ir::Node* node) {
  bool writes = false;
  if (node->isReturn()) return false;
  if (ops::of(node)) {
    writes = visitKnown(node);
  } else {
    writes = true;
    for (const ir::Use& use : node->operands()) {
      if (hasMemory(use.value)) unite(use.value->id(), world_);
    }
    for (size_t i = 0; i < node->resultCount(); ++i) {
      if (hasMemory(node->result(i))) unite(node->result(i)->id(), world_);
    }
    written_[find(world_)] = true;
  }
  if (!node->regions().empty()) uniteRegions(node);
  for (const ir::Region* body : node->regions()) writes |= visit(body);
  return writes_[node->id()] = writes;
}

bool Memory::visitKnown(const ir::Node* node) {
  const ops::Operator& op = *ops::of(node);
  const ir::Schema& schema = op.parsed;
  for (size_t i = 0; i < node->args().size() && i < 64; ++i) {
    if (!(op.writes >> i & 1)) continue;
    eachValue(node->arg(i), [&](const ir::Value* value) { written_[find(value->id())] = true; });
  }
  // Results of a list stand flat; with several lists it is not written where one ends, so each result may be any.
  size_t lists = 0;
  for (const ir::SchemaArgument& result : schema.returns) lists += result.type.list;
  size_t at = 0;
  for (size_t r = 0; r < schema.returns.size(); ++r) {
    const ir::SchemaArgument& result = schema.returns[r];
    size_t count = !result.type.list ? 1 : lists == 1 ? node->resultCount() - (schema.returns.size() - 1) : 0;
    size_t first = lists > 1 ? 0 : at, last = lists > 1 ? node->resultCount() : at + count;
    at += count;
    if (result.alias.empty() && op.resultAlias[r] < 0) continue;
    for (size_t i = first; i < last && i < node->resultCount(); ++i) {
      uint32_t id = node->result(i)->id();
      if (!hasMemory(node->result(i))) continue;
      if (op.resultAlias[r] >= 0) {
        eachValue(node->arg(static_cast<size_t>(op.resultAlias[r])), [&](const ir::Value* v) { unite(v->id(), id); });
      } else {
        unite(id, world_);  // a wildcard
      }
    }
  }
  return op.writes != 0;
}

// What goes into a body and what comes out of it: all of one class where the operator is not known.
void Memory::uniteRegions(const ir::Node* node) {
  if (ops::of(node)) {
    ops::eachEdge(*node, [&](const ir::Arg& from, const ir::Value* to) {
      eachValue(from, [&](const ir::Value* value) {
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
