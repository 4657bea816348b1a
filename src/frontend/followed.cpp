#include "frontend/followed.h"

#include <algorithm>
#include <string>

#include "aot/sharing.h"
#include "aten/call_node.h"
#include "ops/operator.h"

namespace saker::frontend {

namespace {

bool hasOwnGradient(const ir::Node& node) {
  const std::string& name = node.op()->qualified;
  if (ops::of(&node) || name.starts_with("saker::") || name.starts_with("saker_on_copies::")) return false;
  auto op = aten::findOperator(name);
  return op && op->hasKernelForDispatchKey(c10::DispatchKey::Autograd);
}

}  // namespace

std::optional<Stop> whyFollowed(const runtime::Program& program, std::span<const at::Tensor> inputs) {
  for (const ir::Node* node = program.graph->top()->first(); node; node = node->next()) {
    if (node->attributes().inferenceToggled) return Why::TogglesInference;
  }
  auto requiresGrad = [](const at::Tensor& tensor) { return tensor.requires_grad(); };
  if (std::none_of(inputs.begin(), inputs.end(), requiresGrad)) return std::nullopt;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (program.argumentWrites[i] != 0 && inputs[i].requires_grad()) return Why::WritesDifferentiable;
  }
  for (auto [one, other] : aten::sharingPairs(inputs)) {
    if (!inputs[one].requires_grad() && !inputs[other].requires_grad()) continue;
    if (inputs[one].is_same(inputs[other]) || !aot::overlap(inputs[one], inputs[other])) continue;
    return Why::DifferentiableOverlap;
  }
  for (const ir::Node* node = program.graph->top()->first(); node; node = node->next()) {
    if (!node->isReturn() && hasOwnGradient(*node)) return Stop(Why::OwnGradient, node->op()->qualified);
  }
  return std::nullopt;
}

}  // namespace saker::frontend
