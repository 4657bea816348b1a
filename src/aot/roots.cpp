#include "aot/roots.h"

#include <unordered_map>

namespace saker::aot {

namespace {

std::optional<Joint::Root> rootOf(const at::Tensor& result, const Callers& callers,
                                  const std::vector<at::Tensor>& outputs) {
  for (size_t k = 0; k < callers.given.size(); ++k) {
    if (callers.standIns[k].is_same(result)) return Joint::Root{Joint::Root::Kind::Argument, k};
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].is_same(result)) return Joint::Root{Joint::Root::Kind::Output, k};
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].defined() && autogradBase(outputs[k]).is_same(result)) {
      return Joint::Root{Joint::Root::Kind::BaseOfOutput, k};
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Joint::Root> findRoots(const Joint& joint, const Callers& callers, const std::vector<at::Tensor>& results,
                                   const std::vector<at::Tensor>& outputs) {
  if (!joint.bases.empty() || !joint.members.empty()) return {};
  std::vector<Joint::Root> roots;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!joint.results[i].differentiable) continue;
    std::optional<Joint::Root> root = rootOf(results[i], callers, outputs);
    if (!root) return {};
    roots.push_back(*root);
  }
  return roots;
}

void noteRoots(Joint& joint, const std::vector<torch::autograd::Edge>& roots, const Paths& paths) {
  std::unordered_map<const torch::autograd::Node*, size_t> first;
  for (size_t i = 0; i < roots.size(); ++i) {
    joint.reaches.push_back(paths.gradients(roots[i].function.get()));
    joint.nodeOf.push_back(first.emplace(roots[i].function.get(), i).first->second);
  }
}

}  // namespace saker::aot
