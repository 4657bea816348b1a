#include "passes/same_graph.h"

#include <vector>

#include "passes/in_step.h"
#include "support/intern_table.h"

namespace saker::passes {

namespace {

bool sameLine(const ir::Location* a, const ir::Location* b) {
  if (!a || !b) return a == b;
  return a->line == b->line && a->file == b->file;
}

class Comparison : private InStep<Comparison> {
 public:
  explicit Comparison(const ir::Graph& b) : inA_(b.valueLimit()) {}
  using InStep::equal;

 private:
  friend InStep;
  static bool sameFacts(const ir::Node& a, const ir::Node& b) {
    return a.attributes() == b.attributes() && sameLine(a.location(), b.location());
  }
  static bool sameConstant(const ir::Arg& a, const ir::Arg& b) {
    return a.kind() != ir::Arg::Kind::Opaque && ir::sameArg(a, b);
  }
  bool sameValue(const ir::Value* a, const ir::Value* b) const { return inA_[b->id()] == a; }
  void tell(const ir::Value* b, const ir::Value* a) { inA_[b->id()] = a; }

  std::vector<const ir::Value*> inA_;  // by value of the other graph
};

}  // namespace

bool sameGraph(const ir::Graph& a, const ir::Graph& b) {
  return a.sharedContext() == b.sharedContext() && Comparison(b).equal(*a.top(), *b.top());
}

uint64_t hashGraph(const ir::Graph& graph) {
  uint64_t hash = graph.top()->parameters().size();
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    hash = hashMix(hash, reinterpret_cast<uintptr_t>(node->op()));
    for (size_t i = 0; i < node->resultCount(); ++i) {
      hash = hashMix(hash, reinterpret_cast<uintptr_t>(node->result(i)->type()));
    }
  }
  return hash;
}

}  // namespace saker::passes
