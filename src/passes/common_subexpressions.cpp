// Common subexpressions: a node is replaced by an equal one before it. Eager semantics must not show a difference:
// - memory that is written has an age; a node that reads such memory is equal only to nodes of the same age;
// - two fresh results are two pieces of memory: they may become one only if neither is ever written and not both leave
//   the graph; two views of the same memory only if not both are results, since a caller would get one object.
#include <bit>

#include "ops/operator.h"
#include "passes/memory.h"
#include "passes/pass.h"
#include "support/intern_table.h"

namespace saker::passes {
namespace {

class Cse {
 public:
  explicit Cse(ir::Graph& graph) : graph_(graph), memory_(graph) {
    buckets_.resize(std::bit_ceil<size_t>(graph.liveNodes() + 1), kNone);
    returned_.resize(graph.valueLimit());
    findReturned(graph.top());
  }

  void run() { visit(graph_.top()); }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    uint64_t hash;
    uint64_t age;
    ir::Node* node;
    uint32_t next;
  };

  void visit(ir::Region* region) {
    size_t scope = entries_.size();
    for (ir::Node* node = region->first(); node;) {
      ir::Node* next = node->next();
      visit(node);
      node = next;
    }
    // What is computed in a body is not there behind it. Entries leave in the reverse order they came.
    for (; entries_.size() > scope; entries_.pop_back()) buckets_[bucket(entries_.back().hash)] = entries_.back().next;
  }

  void visit(ir::Node* node) {
    bool writes = memory_.writes(node);
    if (writes) ++age_;
    for (ir::Region* body : node->regions()) visit(body);
    if (writes) ++age_;  // once more: a body may be run many times
    if (!mayMerge(*node)) return;
    uint64_t age = ageOf(*node);
    uint64_t hash = hashOf(*node, age);
    for (uint32_t at = buckets_[bucket(hash)]; at != kNone; at = entries_[at].next) {
      const Entry& entry = entries_[at];
      if (entry.hash != hash || entry.age != age || !equal(*entry.node, *node)) continue;
      if (!memoryAllows(*entry.node, *node)) continue;
      replace(node, entry.node);
      return;
    }
    entries_.push_back({hash, age, node, buckets_[bucket(hash)]});
    buckets_[bucket(hash)] = static_cast<uint32_t>(entries_.size() - 1);
  }

  size_t bucket(uint64_t hash) const { return hash & (buckets_.size() - 1); }

  static bool mayMerge(const ir::Node& node) {
    const ops::Operator* op = ops::of(&node);
    return op && node.resultCount() && node.regions().empty() && op->isRemovable() && !op->has(ops::kReadsState) &&
           !op->has(ops::kNondeterministic) && !op->has(ops::kDynamicShape);
  }

  // Of the memory it reads: 0 if that is never written.
  uint64_t ageOf(const ir::Node& node) {
    for (const ir::Use& use : node.operands()) {
      if (memory_.isWritten(use.value)) return age_;
    }
    return 0;
  }

  static uint64_t hashOf(const ir::Node& node, uint64_t age) {
    uint64_t hash = hashMix(reinterpret_cast<uintptr_t>(node.op()), age);
    for (const ir::Arg& arg : node.args()) hash = ir::hashArg(hash, arg);
    return hash;
  }

  static bool equal(const ir::Node& a, const ir::Node& b) {
    if (a.op() != b.op() || a.args().size() != b.args().size() || a.resultCount() != b.resultCount()) return false;
    // Which checkpoint computes it again does not matter: one of them does.
    if (a.attributes().modes() != b.attributes().modes()) return false;
    for (size_t i = 0; i < a.args().size(); ++i) {
      if (!ir::sameArg(a.arg(i), b.arg(i))) return false;
    }
    for (size_t i = 0; i < a.resultCount(); ++i) {
      if (a.result(i)->type() != b.result(i)->type()) return false;
    }
    return true;
  }

  bool memoryAllows(const ir::Node& a, const ir::Node& b) {
    bool isView = ops::of(&a)->variant == ops::Variant::View && !ops::of(&a)->has(ops::kMayAlias);
    for (size_t i = 0; i < a.resultCount(); ++i) {
      const ir::Value *x = a.result(i), *y = b.result(i);
      if (!x->tensor()) continue;
      if (memory_.isWritten(x) || memory_.isWritten(y)) return false;
      if (isView ? returned_[x->id()] && returned_[y->id()] : memory_.escapes(x) && memory_.escapes(y)) return false;
    }
    return true;
  }

  void findReturned(const ir::Region* region) {
    for (const ir::Node* node = region->first(); node; node = node->next()) {
      for (const ir::Region* body : node->regions()) findReturned(body);
    }
    if (const ir::Node* end = region->terminator()) {
      for (const ir::Use& use : end->operands()) returned_[use.value->id()] = true;
    }
  }

  void replace(ir::Node* node, ir::Node* by) {
    for (size_t i = 0; i < node->resultCount(); ++i) {
      memory_.merge(by->result(i), node->result(i));
      if (returned_[node->result(i)->id()]) returned_[by->result(i)->id()] = true;
      graph_.replaceAllUses(node->result(i), by->result(i));
    }
    graph_.erase(node);
  }

  ir::Graph& graph_;
  Memory memory_;
  std::vector<uint32_t> buckets_;  // heads of lists of entries
  std::vector<Entry> entries_;
  std::vector<bool> returned_;  // by value id: is an operand of a return
  uint64_t age_ = 1;
};

}  // namespace

void eliminateCommonSubexpressions(ir::Graph& graph) { Cse(graph).run(); }

}  // namespace saker::passes
