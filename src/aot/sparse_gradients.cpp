#include "aot/sparse_gradients.h"

#include <algorithm>

#include "aten/trace_key.h"

namespace saker::aot {

void takeSparseApart(Joint& joint, torch::autograd::variable_list& gradients) {
  aten::RunForReal below;  // asks for parts only
  size_t count = gradients.size();
  for (size_t i = 0; i < count; ++i) {
    at::Tensor gradient = gradients[i];
    if (!gradient.defined() || gradient.layout() != c10::kSparse) continue;
    joint.sparse.push_back({i, gradients.size(), gradient.is_coalesced()});
    gradients[i] = gradient._values();
    gradients.push_back(gradient._indices());
    joint.gradientOf.push_back(joint.gradientOf[i]);
    for (std::vector<bool>& reached : joint.reaches) reached.push_back(reached[i]);
    for (VersionCheck& check : joint.checks) check.gradients.push_back(check.gradients[i]);
    for (Joint::Buffers& buffers : joint.buffers) buffers.gradients.push_back(buffers.gradients[i]);
    for (Joint::Stage& stage : joint.stages) {
      if (std::find(stage.gradients.begin(), stage.gradients.end(), i) == stage.gradients.end()) continue;
      stage.gradients.push_back(gradients.size() - 1);
    }
  }
}

}  // namespace saker::aot
