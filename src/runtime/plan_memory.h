// Decides which values of a graph lie in a workspace: results of operators that can compute into memory they are given,
// and that nobody sees outside of the run.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "lower/in_place.h"
#include "runtime/together.h"
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
    // By result: the operand in whose memory it lies, or kNone. That lies in no workspace.
    std::vector<uint32_t> overwrites;
  };
  std::unordered_map<const ir::Node*, Fused> fused;
};

// Which results of a group may take the place of which of its operands.
using InPlaceOf = std::function<std::vector<lower::InPlace>(const ir::Node& group)>;

// Buffers have no offsets yet: more may be needed. `ending`, by input of the graph: nobody else has it, and it is let
// go at its last use; of none where it is empty. Groups that run `together` need all of their memory at one time.
MemoryPlan planMemory(const ir::Graph& graph, const InPlaceOf& inPlaceOf, const std::vector<bool>& ending = {},
                      const std::vector<Together>& together = {});

}  // namespace saker::runtime
