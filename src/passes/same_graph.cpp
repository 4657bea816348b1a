#include "passes/same_graph.h"

#include "support/intern_table.h"

namespace saker::passes {

namespace {

class Comparison {
 public:
  explicit Comparison(const ir::Graph& b) : inA_(b.valueLimit()) {}

  bool equal(const ir::Region& a, const ir::Region& b) {
    if (a.parameters().size() != b.parameters().size()) return false;
    for (size_t i = 0; i < a.parameters().size(); ++i) {
      if (!equal(*a.parameters()[i], *b.parameters()[i])) return false;
    }
    const ir::Node *x = a.first(), *y = b.first();
    for (; x && y; x = x->next(), y = y->next()) {
      if (!equal(*x, *y)) return false;
    }
    return !x && !y;
  }

 private:
  bool equal(const ir::Value& a, const ir::Value& b) {
    inA_[b.id()] = &a;
    return a.type() == b.type();
  }

  bool equal(const ir::Node& a, const ir::Node& b) {
    if (a.op() != b.op() || a.attributes() != b.attributes() || !equal(a.location(), b.location())) return false;
    if (a.args().size() != b.args().size() || a.resultCount() != b.resultCount()) return false;
    if (a.regions().size() != b.regions().size()) return false;
    for (size_t i = 0; i < a.args().size(); ++i) {
      if (!equal(a.arg(i), b.arg(i))) return false;
    }
    for (size_t i = 0; i < a.resultCount(); ++i) {
      if (!equal(*a.result(i), *b.result(i))) return false;
    }
    for (size_t i = 0; i < a.regions().size(); ++i) {
      if (!equal(*a.regions()[i], *b.regions()[i])) return false;
    }
    return true;
  }

  bool equal(const ir::Arg& a, const ir::Arg& b) const {
    if (a.kind() != b.kind() || a.kind() == ir::Arg::Kind::Opaque) return false;
    if (a.isValue()) return inA_[b.toValue()->id()] == a.toValue();
    if (!a.isList()) return ir::sameArg(a, b);
    if (a.toList().size() != b.toList().size()) return false;
    for (size_t i = 0; i < a.toList().size(); ++i) {
      if (!equal(a.toList()[i], b.toList()[i])) return false;
    }
    return true;
  }

  static bool equal(const ir::Location* a, const ir::Location* b) {
    if (!a || !b) return a == b;
    return a->line == b->line && a->file == b->file;
  }

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
