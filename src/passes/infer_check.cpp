#include "passes/infer_check.h"

#include "ir/print.h"
#include "ops/infer.h"

namespace saker::passes {
namespace {

// Whether a result requires a gradient is autograd's affair, not the operator's.
const ir::Type* withoutGrad(ir::Context& context, const ir::Type* type) {
  const ir::TensorType* tensor = ir::asTensor(type);
  if (!tensor || !tensor->flags.requiresGrad) return type;
  ir::TensorSpec spec(*tensor);
  spec.flags.requiresGrad = false;
  return context.types().tensor(spec);
}

class Checker {
 public:
  explicit Checker(const ir::Graph& graph) : context_(graph.context()), names_(graph) {}

  void visit(const ir::Region* region) {
    for (const ir::Node* node = region->first(); node; node = node->next()) {
      if (const ops::Operator* op = ops::of(node); op && op->infer && !op->bodies) check(*node, *op);
      for (const ir::Region* body : node->regions()) visit(body);
    }
  }
  std::vector<ir::Diagnostic> take() { return std::move(found_); }

 private:
  void check(const ir::Node& node, const ops::Operator& op) {
    ops::Inferred inferred = ops::infer(op, context_, node.args());
    if (!inferred.ok()) return report(node, "inference refuses: " + inferred.refusal->message);
    if (inferred.results.size() != node.resultCount()) {
      return report(node, "expected " + std::to_string(inferred.results.size()) + " results, found " +
                              std::to_string(node.resultCount()));
    }
    for (size_t i = 0; i < node.resultCount(); ++i) {
      const ir::Type* written = node.result(i)->type();
      if (withoutGrad(context_, written) == withoutGrad(context_, inferred.results[i])) continue;
      report(node, "expected result " + std::to_string(i) + " of type " + ir::toString(inferred.results[i]) +
                       ", found " + ir::toString(written));
    }
  }

  void report(const ir::Node& node, const std::string& what) {
    found_.push_back({names_.of(&node) + ": " + what, &node, node.location()});
  }

  ir::Context& context_;
  ir::ValueNames names_;
  std::vector<ir::Diagnostic> found_;
};

}  // namespace

std::vector<ir::Diagnostic> checkInference(const ir::Graph& graph) {
  Checker checker(graph);
  checker.visit(graph.top());
  return checker.take();
}

}  // namespace saker::passes
