// Operators on tensors whose elements are all one known number are computed: a result of that kind is a fill, and as an
// operand it becomes the number itself, so that `x * ones` is `x * 1`, which remove-noops knows.
#include <unordered_map>

#include "ops/infer.h"
#include "ops/uniform.h"
#include "ops/view_inverse.h"
#include "passes/memory.h"
#include "passes/pass.h"

namespace saker::passes {
namespace {

class ConstantFolder {
 public:
  explicit ConstantFolder(ir::Graph& graph) : graph_(graph), memory_(graph) {}

  void visit(ir::Region* region) {
    for (ir::Node* node = region->first(); node;) {
      ir::Node* next = node->next();
      for (ir::Region* body : node->regions()) visit(body);
      if (!node->isReturn()) visit(node);
      node = next;
    }
  }

 private:
  void visit(ir::Node* node) {
    std::optional<ir::Arg> number = ops::uniformResult(*node, [&](const ir::Value* value) { return known(value); });
    if (!number) return useNumbers(node);
    ir::Value* result = node->result();
    if (memory_.isWritten(result)) return;
    numbers_.emplace(result, *number);
    if (!ops::isFill(*node) && ops::sharing(*node, 0) == ops::Sharing::None) fillInstead(node, *number);
  }

  std::optional<ir::Arg> known(const ir::Value* value) const {
    auto found = numbers_.find(value);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }

  void fillInstead(ir::Node* node, const ir::Arg& number) {
    static const ops::Operator* full = ops::find("aten::full");
    const ir::TensorType& type = *node->result()->tensor();
    std::vector<ir::Arg> sizes;
    for (sym::Int size : type.sizes()) sizes.push_back(ir::Arg::symInt(size));
    ir::Arg args[] = {ir::Arg::list(sizes),         number,         ir::Arg::dtype(type.dtype), ir::Arg::none(),
                      ir::Arg::device(type.device), ir::Arg::none()};
    ir::Node* made = created(full, args, node);
    if (!made) return;
    numbers_.emplace(made->result(), number);
    graph_.replaceAllUses(node->result(), made->result());
    graph_.erase(node);
  }

  // Nothing, if its result were of another type (other strides).
  ir::Node* created(const ops::Operator* op, std::span<const ir::Arg> args, ir::Node* before) {
    if (!gives(*op, args, before->result())) return nullptr;
    const ir::Type* results[] = {before->result()->type()};
    ir::Node* made = graph_.create(op, args, results, 0, before->origin());
    graph_.insertBefore(before->region(), before, made);
    return made;
  }

  void useNumbers(ir::Node* node) {
    if (!node->resultCount() || !ops::mayBeNumber(*node, 1)) return;
    std::optional<ir::Arg> number = known(node->operand(1));
    if (!number) return;
    std::vector<ir::Arg> args(node->args().begin(), node->args().end());
    args[1] = *number;
    if (gives(*ops::of(node), args, node->result())) graph_.setArg(node, 1, *number);
  }

  // Whether a call has this result, by what is known about sizes: an answer of the examples would be one more guard.
  bool gives(const ops::Operator& op, std::span<const ir::Arg> args, const ir::Value* result) {
    sym::Context& symbols = graph_.context().symbols();
    sym::Context::Checkpoint before = symbols.checkpoint();
    size_t assumed = symbols.facts().assumed().size();
    ops::Inferred inferred = ops::infer(op, graph_.context(), args);
    bool isKnown = symbols.facts().assumed().size() == assumed && symbols.symbols().size() == before.symbols;
    if (!isKnown) symbols.rollback(before);
    return isKnown && !inferred.refusal && inferred.results.size() == 1 && inferred.results[0] == result->type();
  }

  ir::Graph& graph_;
  Memory memory_;
  std::unordered_map<const ir::Value*, ir::Arg> numbers_;
};

}  // namespace

void foldConstants(ir::Graph& graph) { ConstantFolder(graph).visit(graph.top()); }

}  // namespace saker::passes
