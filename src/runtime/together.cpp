#include "runtime/together.h"

#include <optional>
#include <unordered_set>

#include "ops/group.h"
#include "passes/memory.h"

namespace saker::runtime {

namespace {

constexpr size_t kMost = 256;

// What the groups found so far read, write and give.
struct Members {
  std::unordered_set<uint32_t> read, written;  // classes of memory
  std::unordered_set<const ir::Node*> nodes;
};

}  // namespace

std::vector<Together> findTogether(const ir::Graph& graph, const std::function<GroupFacts(const ir::Node&)>& factsOf) {
  // As groups were made: inputs that share memory are views of one.
  std::optional<passes::Memory> memory;
  std::vector<Together> found;
  Members members;
  const ir::Node* first = nullptr;
  auto close = [&] {
    if (members.nodes.size() > 1) found.push_back({first, members.nodes.size()});
    members = {};
  };
  for (const ir::Node* node = graph.top()->first(); node && !node->isReturn(); node = node->next()) {
    GroupFacts facts = ops::isGroup(*node) ? factsOf(*node) : GroupFacts();
    if (!facts.small) {
      close();
      continue;
    }
    if (!memory)
      memory.emplace(graph, passes::Memory::Assumptions{false, passes::Memory::Assumptions::Unknown::Nothing});
    auto depends = [&] {
      for (const ir::Use& use : node->operands()) {
        if (use.value->def() && members.nodes.count(use.value->def())) return true;
        if (members.written.count(memory->classOf(use.value))) return true;
      }
      for (uint32_t written : facts.written) {
        if (members.read.count(memory->classOf(node->operand(written)))) return true;
      }
      return members.nodes.size() == kMost;
    };
    if (depends()) close();
    if (members.nodes.empty()) first = node;
    members.nodes.insert(node);
    for (const ir::Use& use : node->operands()) members.read.insert(memory->classOf(use.value));
    for (uint32_t written : facts.written) members.written.insert(memory->classOf(node->operand(written)));
  }
  close();
  return found;
}

}  // namespace saker::runtime
