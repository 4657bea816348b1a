#include "aot/buffers.h"

#include <torch/csrc/autograd/saved_variable.h>

#include <set>
#include <string_view>

namespace saker::aot {

namespace {

// A node asks for what it has saved before it looks at gradients: without any it computes nothing.
bool hasSaved(torch::autograd::Node& node) {
  node.release_variables();
  try {
    node(torch::autograd::variable_list(node.num_inputs()));
  } catch (const std::exception& error) {
    return std::string_view(error.what()).find(torch::autograd::ERR_BACKWARD_TWICE) != std::string_view::npos;
  }
  return false;
}

}  // namespace

std::vector<Joint::Buffers> findBuffers(const Paths& paths, const std::vector<torch::autograd::Edge>& ends) {
  std::set<const torch::autograd::Node*> others;
  for (const torch::autograd::Edge& end : ends) others.insert(end.function.get());
  std::set<Joint::Buffers> found;
  for (torch::autograd::Node* node : paths.nodes()) {
    if (!others.contains(node) && hasSaved(*node)) found.insert({paths.tangents(node), paths.gradients(node)});
  }
  return {found.begin(), found.end()};
}

}  // namespace saker::aot
