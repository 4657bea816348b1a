// A view that sees the same elements as another value of the same memory is that value: `t(t(x))`, a slice of
// everything, a view back to the old sizes, the second of two equal ways. Two values of one memory with the same sizes,
// strides, offset and dtype see the same elements, so that no operator has to be known by name.
//
// For graphs that run below autograd, to which `detach` is more than a view. What leaves the graph stays as it is, and
// so do views that lead there: a caller would get one object for two, or a view of another tensor.
#include <unordered_map>

#include "ops/operator.h"
#include "ops/view_inverse.h"
#include "passes/pass.h"
#include "support/intern_table.h"

namespace saker::passes {
namespace {

class ViewSimplifier {
 public:
  explicit ViewSimplifier(ir::Graph& graph) : graph_(graph), root_(graph.valueLimit()), returned_(graph.valueLimit()) {}

  void run() {
    if (!canFollow(graph_.top())) return;
    for (ir::Value* parameter : graph_.top()->parameters()) enter(parameter, parameter);
    visit(graph_.top());
  }

 private:
  struct Place {
    const ir::Value* root;
    const ir::Type* type;
    bool operator==(const Place&) const = default;
  };
  struct HashPlace {
    size_t operator()(const Place& place) const {
      return hashMix(reinterpret_cast<uintptr_t>(place.root), reinterpret_cast<uintptr_t>(place.type));
    }
  };

  // Not where memory is exchanged under a tensor. Notes what leaves a region on the way.
  bool canFollow(const ir::Region* region) {
    for (const ir::Node* node = region->first(); node; node = node->next()) {
      if (node->isReturn()) {
        for (const ir::Use& use : node->operands()) returned_[use.value->id()] = true;
        continue;
      }
      const ops::Operator* op = ops::of(node);
      if (op && op->has(ops::kSetsStorage)) return false;
      for (const ir::Region* body : node->regions()) {
        if (!canFollow(body)) return false;
      }
    }
    return true;
  }

  void visit(ir::Region* region) {
    size_t scope = entered_.size();
    for (ir::Node* node = region->first(); node;) {
      ir::Node* next = node->next();
      for (ir::Region* body : node->regions()) visit(body);
      visit(node);
      node = next;
    }
    // What is computed in a body is not there behind it.
    for (; entered_.size() > scope; entered_.pop_back()) seen_.erase(entered_.back());
  }

  void visit(ir::Node* node) {
    const ops::Operator* op = ops::of(node);
    if (!op || node->isReturn()) return;
    for (size_t i = 0; i < node->resultCount(); ++i) {
      ir::Value* result = node->result(i);
      if (!result->tensor()) continue;
      ops::Sharing sharing = ops::sharing(*node, i);
      bool isView = op->writes == 0 && !op->has(ops::kMayAlias) && sharing != ops::Sharing::None;
      if (!isView) {
        // The result of a write is its argument; nothing is looked for behind it.
        if (sharing == ops::Sharing::None) enter(result, result);
        continue;
      }
      const ir::Value* root = root_[node->operand(0)->id()];
      if (!root) continue;
      root_[result->id()] = root;
      simplify(result, {root, withoutGrad(result)});
    }
  }

  void simplify(ir::Value* view, const Place& place) {
    auto known = seen_.find(place);
    if (known == seen_.end()) return enter(view, place.root);
    if (returned_[view->id()] || view->def()->attributes().shown || !view->firstUse()) return;
    graph_.replaceAllUses(view, known->second);
  }

  void enter(ir::Value* value, const ir::Value* root) {
    if (!value->tensor()) return;
    root_[value->id()] = root;
    Place place{root, withoutGrad(value)};
    if (seen_.emplace(place, value).second) entered_.push_back(place);
  }

  const ir::Type* withoutGrad(const ir::Value* value) {
    const ir::TensorType* tensor = value->tensor();
    if (!tensor->flags.requiresGrad) return tensor;
    ir::TensorSpec spec(*tensor);
    spec.flags.requiresGrad = false;
    return graph_.context().types().tensor(spec);
  }

  ir::Graph& graph_;
  std::vector<const ir::Value*> root_;  // by value id: whose memory it lies in; nullptr where that is not known
  std::vector<bool> returned_;          // by value id
  std::unordered_map<Place, ir::Value*, HashPlace> seen_;
  std::vector<Place> entered_;
};

}  // namespace

void simplifyViews(ir::Graph& graph) { ViewSimplifier(graph).run(); }

}  // namespace saker::passes
