// Puts operators that can share a kernel into groups, nodes with a body (ops/group.h): chains of pointwise operators,
// reductions along the same rows with what is before and behind them, siblings that read the same memory. What writes
// to tensors may be among them, and stays in order; inputs of the graph that share memory must be views of one.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace saker::lower {

struct FuseOptions {
  size_t fewestNodes = 2;  // of one group: an operator alone is called
  size_t mostNodes = 64;
  bool toTheBit = false;  // only what is eager mode's to the bit: no functions, no sums of floats
};

struct FusedGroup {
  const ir::Node* node;
  std::string ended;  // why it did not grow
};

// What was refused by lowering stays as it was, with the reason.
struct Fusion {
  std::vector<FusedGroup> groups;
  std::vector<std::string> refused;
};

Fusion fuse(ir::Graph& graph, const FuseOptions& options = {});

}  // namespace saker::lower
