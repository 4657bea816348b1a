#include "aot/buffers.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <set>
#include <string_view>
#include <typeinfo>

#include "capture/user_code.h"
#include "control/call_derivative.h"

namespace saker::aot {

namespace {

// Nodes whose code is written in Python, or that look at gradients first, are taken to keep something.
bool keepsUnasked(const torch::autograd::Node& node) {
  std::string_view type = typeid(node).name();
  return type.find("PyNode") != std::string_view::npos || type.find("CppNode") != std::string_view::npos ||
         type.find("CopySlices") != std::string_view::npos;
}

bool saysFreed(std::string_view text) {
  return text.find(torch::autograd::ERR_BACKWARD_TWICE) != std::string_view::npos;
}

// A node asks for what it has saved before it looks at gradients: without any it computes nothing.
bool hasSaved(torch::autograd::Node& node) {
  if (const auto* call = dynamic_cast<const control::CallNode*>(&node)) return call->saves();
  if (std::optional<bool> saves = tracing::OpenedNodes::saves(node)) return *saves;
  if (keepsUnasked(node)) return true;
  node.release_variables();
  try {
    node(torch::autograd::variable_list(node.num_inputs()));
  } catch (const c10::Error& error) {
    // With the names of all functions that it comes from, its text would take a millisecond.
    return saysFreed(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return saysFreed(error.what());
  }
  return false;
}

}  // namespace

std::vector<Joint::Buffers> findBuffers(const Paths& paths, const std::vector<torch::autograd::Edge>& ends) {
  std::set<const torch::autograd::Node*> others;
  for (const torch::autograd::Edge& end : ends) others.insert(end.function.get());
  std::set<Joint::Buffers> found;
  for (torch::autograd::Node* node : paths.nodes()) {
    if (others.contains(node)) continue;
    Joint::Buffers reached{paths.tangents(node), paths.gradients(node)};
    if (!found.contains(reached) && hasSaved(*node)) found.insert(std::move(reached));
  }
  return {found.begin(), found.end()};
}

}  // namespace saker::aot
