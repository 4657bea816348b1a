// Operators that give what they are given (a clone, a conversion to the dtype there is, x * 1) are left out, where no
// one can tell: the result is memory of its own, so that neither may be written, and not both may leave the graph.
#include "ops/identity.h"
#include "ops/operator.h"
#include "passes/memory.h"
#include "passes/pass.h"

namespace saker::passes {
namespace {

class NoopRemover {
 public:
  explicit NoopRemover(ir::Graph& graph) : graph_(graph), memory_(graph) {
    for (const ir::Value* parameter : graph.top()->parameters()) {
      if (parameter->tensor()) input_ = parameter;
    }
  }

  void visit(ir::Region* region) {
    for (ir::Node* node = region->first(); node;) {
      ir::Node* next = node->next();
      for (ir::Region* body : node->regions()) visit(body);
      visit(node);
      node = next;
    }
  }

 private:
  void visit(ir::Node* node) {
    std::optional<size_t> argument = ops::identityArgument(*node);
    if (!argument) return;
    ir::Value* result = node->result();
    ir::Value* given = node->arg(*argument).toValue();
    if (memory_.isWritten(given) || memory_.isWritten(result)) return;
    if (isSeenOutside(given) && isSeenOutside(result)) return;
    memory_.merge(given, result);
    graph_.replaceAllUses(result, given);
    graph_.erase(node);
  }

  // By whoever calls the graph: it leaves the graph, or came in. Inputs are of one class.
  bool isSeenOutside(const ir::Value* value) {
    return memory_.escapes(value) || (input_ && memory_.classOf(input_) == memory_.classOf(value));
  }

  ir::Graph& graph_;
  Memory memory_;
  const ir::Value* input_ = nullptr;  // a tensor among them
};

}  // namespace

void removeNoops(ir::Graph& graph) { NoopRemover(graph).visit(graph.top()); }

}  // namespace saker::passes
