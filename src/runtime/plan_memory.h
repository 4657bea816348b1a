// Decides which values of a graph lie in a workspace: results of operators that can compute into memory they are given,
// and that nobody sees outside of the run.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <unordered_map>

#include "ir/graph.h"
#include "runtime/workspace.h"

namespace saker::runtime {

struct MemoryPlan {
  struct Computed {
    c10::OperatorHandle into;  // takes what the operator takes, and then the tensor to compute into
    size_t place;
  };
  WorkspacePlan workspace;
  std::unordered_map<const ir::Node*, Computed> nodes;
  struct Fused {
    size_t step;                   // of blocks
    std::vector<uint32_t> places;  // by result: its place, or kNone
  };
  std::unordered_map<const ir::Node*, Fused> fused;
};

// Buffers have no offsets yet: more may be needed.
MemoryPlan planMemory(const ir::Graph& graph);

}  // namespace saker::runtime
