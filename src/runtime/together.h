// Groups that stand beside each other in a graph, are small, and do not depend on each other: their kernels are
// launched as one (the steps of an optimizer over hundreds of tensors).
#pragma once

#include <functional>
#include <vector>

#include "ir/graph.h"

namespace saker::runtime {

struct Together {
  const ir::Node* first;
  size_t count;
};

// What is known of the kernels of a group.
struct GroupFacts {
  bool small = false;  // one kernel that is not worth two threads, needs no memory beside, and raises nothing
  std::vector<uint32_t> written;  // operands
};

std::vector<Together> findTogether(const ir::Graph& graph, const std::function<GroupFacts(const ir::Node&)>& factsOf);

}  // namespace saker::runtime
