#include "aot/roots.h"

#include <unordered_map>
#include <unordered_set>

#include "control/call_derivative.h"

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

void noteRoots(Joint& joint, const std::vector<torch::autograd::Edge>& roots,
               const std::vector<torch::autograd::Edge>& ends, const Paths& paths) {
  std::unordered_map<const torch::autograd::Node*, size_t> first;
  for (size_t i = 0; i < roots.size(); ++i) {
    joint.reaches.push_back(paths.gradients(roots[i].function.get()));
    joint.nodeOf.push_back(first.emplace(roots[i].function.get(), i).first->second);
    joint.rootAt.push_back(roots[i].function->sequence_nr());
  }
  std::unordered_map<torch::autograd::Edge, std::vector<size_t>> endAt;
  for (size_t i = 0; i < ends.size(); ++i) endAt[ends[i]].push_back(i);
  std::unordered_set<const torch::autograd::Node*> last;  // ways do not go through what is wanted
  for (const torch::autograd::Edge& end : ends) last.insert(end.function.get());
  joint.givenAt.assign(ends.size(), {UINT64_MAX, UINT64_MAX, 0});
  for (const torch::autograd::Node* node : paths.nodes()) {
    if (last.contains(node)) continue;
    const auto* call = dynamic_cast<const control::CallNode*>(node);
    for (size_t place = 0; place < node->num_outputs(); ++place) {
      auto end = endAt.find(node->next_edge(place));
      if (end == endAt.end()) continue;
      Joint::Given given{node->sequence_nr(), 0, place};
      if (call && place < call->body().given.size()) {
        const control::BodyNodes::Given& inner = call->body().given[place];
        given = {node->sequence_nr(), inner.node, inner.place};
      }
      for (size_t i : end->second) {
        if (given.when() <= joint.givenAt[i].when()) joint.givenAt[i] = given;
      }
    }
  }
}

}  // namespace saker::aot
