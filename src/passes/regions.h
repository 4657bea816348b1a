// Regions: runs of nodes that the program marked as one call (nested_compile_region), or that it repeats. Each can
// become one `saker::call` whose body they are, and be put back in its place. Equal bodies are then worked on once.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace saker::passes {

// Does a node carry the number of a region?
bool hasRegions(const ir::Graph& graph);

// What the program gave a region, by its parameters' names: these operands of the call come first.
struct RegionArguments {
  uint16_t call = 0;  // the number that its nodes carry
  std::vector<std::pair<const ir::Value*, std::string>> given;
};

// Makes calls of the regions whose nodes carry a number, in bodies too. A region stays as it is if a call of it would
// not be the same to everybody who reads the graph: it writes to memory from outside, draws random numbers, gives an
// operand or a view of one, or two tensors on one memory.
void outlineCalls(ir::Graph& graph, std::span<const RegionArguments> arguments);

// Makes calls of regions of which there are several equal ones, for autograd to differentiate once: of those that are
// marked, or, where none is, of what the program repeats (passes/repeats.h). Gradients must be those of the nodes one
// by one, bit by bit: sums of gradients are not put in another order, and nobody sees a tensor of a region. Gives how
// many were made.
size_t outlineShared(ir::Graph& graph);

}  // namespace saker::passes
