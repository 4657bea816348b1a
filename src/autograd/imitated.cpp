#include "autograd/imitated.h"

#include <algorithm>

namespace saker::autograd {
namespace {

bool sameLayout(const ir::TensorType& a, const ir::TensorType& b) {
  auto same = [](sym::Int x, sym::Int y) {
    return x.isConst() ? y.isConst() && x.constant() == y.constant() : x.node() == y.node();
  };
  return a.dtype == b.dtype && a.layout == b.layout && a.device == b.device && a.rank == b.rank &&
         std::equal(a.dims, a.dims + 2 * size_t{a.rank}, b.dims, same);
}

}  // namespace

bool isFactory(const ir::Node& node) {
  const ops::Operator* op = ops::of(&node);
  return op && op->cost == ops::Cost::Fill && op->isPure() && !op->parsed.arguments.empty() &&
         op->parsed.arguments[0].name == "self" && node.arg(0).isValue();
}

bool readsData(const ir::Node& node, const ir::Value* value) {
  for (size_t i = isFactory(node) ? 1 : 0; i < node.operandCount(); ++i) {
    if (node.operand(i) == value) return true;
  }
  return false;
}

void freeImitated(const JointGraph& joint) {
  std::span<ir::Value* const> parameters = joint.graph().top()->parameters();
  for (size_t place = 0; place < joint.nodes().size(); ++place) {
    ir::Node* node = joint.nodes()[place];
    if (joint.inForward(place) || !isFactory(*node)) continue;
    const ir::Value* imitated = node->operand(0);
    if (imitated->isParameter() || !imitated->tensor() || !joint.isSavable(imitated)) continue;
    auto serves = [&](const ir::Value* parameter) {
      return parameter->tensor() && sameLayout(*parameter->tensor(), *imitated->tensor()) && !joint.mustCopy(parameter);
    };
    // Tangents, which come last, are there anyway.
    auto found = std::find_if(parameters.rbegin(), parameters.rend(), serves);
    if (found != parameters.rend()) joint.graph().setOperand(node, 0, *found);
  }
}

}  // namespace saker::autograd
