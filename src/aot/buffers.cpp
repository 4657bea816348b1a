#include "aot/buffers.h"

#include <c10/util/Exception.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <set>
#include <span>
#include <string_view>
#include <typeindex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

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
  if (const auto* call = dynamic_cast<const control::CallNode*>(&node)) return call->body().saves;
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

// What nodes save follows from their formula and from which of their inputs have gradients: every formula that saves
// tensors saves one that is always there. So one node of a kind that saves is asked, since its answer is an exception.
class Saves {
 public:
  bool operator()(torch::autograd::Node& node) {
    std::pair<std::type_index, std::vector<bool>> kind(typeid(node), {});
    for (const torch::autograd::Edge& edge : node.next_edges()) kind.second.push_back(edge.is_valid());
    if (saving_.contains(kind)) return true;
    bool saves = hasSaved(node);
    if (saves && !isAskedAlone(node)) saving_.insert(std::move(kind));
    return saves;
  }

 private:
  // Here it follows from the program.
  static bool isAskedAlone(const torch::autograd::Node& node) {
    return dynamic_cast<const control::CallNode*>(&node) || keepsUnasked(node);
  }

  std::set<std::pair<std::type_index, std::vector<bool>>> saving_;
};

std::string_view asText(std::span<const uint64_t> bits) {
  return {reinterpret_cast<const char*>(bits.data()), bits.size_bytes()};
}

}  // namespace

void findBuffers(Joint& joint, const Paths& paths, const std::vector<torch::autograd::Edge>& roots,
                 const std::vector<torch::autograd::Edge>& ends) {
  std::unordered_set<const torch::autograd::Node*> others;
  for (const torch::autograd::Edge& end : ends) others.insert(end.function.get());
  std::unordered_map<std::string_view, size_t> known;  // by bits of nodes that keep something
  std::unordered_map<const torch::autograd::Node*, std::optional<size_t>> rootAt;
  for (const torch::autograd::Edge& root : roots) rootAt.emplace(root.function.get(), std::nullopt);
  Saves saves;
  for (size_t place = 0; place < paths.nodes().size(); ++place) {
    torch::autograd::Node* node = paths.nodes()[place];
    auto root = rootAt.find(node);
    std::string_view bits = asText(paths.bits(place));
    bool asked = !known.contains(bits) || root != rootAt.end();
    if (others.contains(node) || !asked || !saves(*node)) continue;
    auto [of, isNew] = known.emplace(bits, joint.buffers.size());
    if (isNew) joint.buffers.push_back({paths.tangents(node), paths.gradients(node)});
    if (root != rootAt.end()) root->second = of->second;
  }
  for (const torch::autograd::Edge& root : roots) joint.rootBuffers.push_back(rootAt.at(root.function.get()));
}

}  // namespace saker::aot
