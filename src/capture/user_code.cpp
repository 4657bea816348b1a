#include "capture/user_code.h"

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "capture/trace_tensor.h"

namespace saker::tracing {

namespace {

using torch::autograd::Edge;
using torch::autograd::Node;

// Functions written in Python that are formulas and nothing else: those of torch.library.register_autograd.
bool isFormula(const Node& node) { return node.name().starts_with("GeneratedBackwardFor_"); }

bool isOf(const Node& node, std::string_view type) {
  return std::string_view(typeid(node).name()).find(type) != std::string_view::npos;
}

thread_local std::unordered_map<const Node*, bool>* opened = nullptr;

bool runsUserCode(Node& node) {
  bool isFunction = (isOf(node, "PyNode") || isOf(node, "CppNode")) && !isFormula(node);
  if (isFunction && !OpenedNodes::saves(node)) return true;
  return !node.pre_hooks().empty() || !node.tensor_pre_hooks().empty() || !node.post_hooks().empty() ||
         !node.retains_grad_hooks().empty();
}

// Every node behind the roots, once; `visit` says whether to go on behind it.
template <typename Visit>
void walk(const std::vector<Edge>& roots, const Visit& visit) {
  std::unordered_set<const Node*> seen;
  std::vector<Node*> work;
  auto enter = [&](const Edge& edge) {
    if (edge.function && seen.insert(edge.function.get()).second) work.push_back(edge.function.get());
  };
  for (const Edge& root : roots) enter(root);
  while (!work.empty()) {
    Node* node = work.back();
    work.pop_back();
    if (!visit(*node)) continue;
    for (const Edge& next : node->next_edges()) enter(next);
  }
}

}  // namespace

SubclassNode::~SubclassNode() = default;

static thread_local bool applied = false;
void noteApplied() { applied |= c10::GradMode::is_enabled(); }
bool takeApplied() { return std::exchange(applied, false); }

OpenedNodes::OpenedNodes() { opened = new std::unordered_map<const Node*, bool>; }
OpenedNodes::~OpenedNodes() { delete std::exchange(opened, nullptr); }
void OpenedNodes::note(const Node& node, bool saves) {
  if (opened) opened->insert_or_assign(&node, saves);
}
std::optional<bool> OpenedNodes::saves(const Node& node) {
  auto found = opened ? opened->find(&node) : decltype(opened->end())();
  return opened && found != opened->end() ? std::optional(found->second) : std::nullopt;
}

bool reachesUserCode(const std::vector<Edge>& roots) {
  bool found = false;
  walk(roots, [&](Node& node) {
    found = found || runsUserCode(node);
    return !found;
  });
  return found;
}

bool reachesRecordedUserCode(const std::vector<Edge>& roots) { return reachesUserCode(roots, 0); }

bool reachesUserCode(const std::vector<Edge>& roots, uint64_t first) {
  bool found = false;
  walk(roots, [&](Node& node) {
    if (node.sequence_nr() < first) return false;
    const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(&node);
    bool outside = leaf && leaf->variable.defined() && !traceTensor(*leaf->variable.unsafeGetTensorImpl());
    found = found || (!outside && runsUserCode(node));
    return !found;
  });
  return found;
}

bool needFunction(const std::vector<Edge>& roots) {
  bool found = false;
  walk(roots, [&](Node& node) {
    found = found || OpenedNodes::saves(node) || dynamic_cast<const SubclassNode*>(&node) != nullptr;
    return !found;
  });
  return found;
}

}  // namespace saker::tracing
