// Finds what a program repeats without marks: runs of nodes that do the same one after the other, such as the layers of
// a model.
#pragma once

#include <vector>

#include "passes/region_finder.h"

namespace saker::passes {

// Runs of a region of a graph, equal ones at least three times in a row, first and last alone filled in. Operators,
// constants, types and lines of the program are compared; whether the values are the same is for the caller to compare.
// A run begins where as few values as possible come from the one before it.
std::vector<NodeRun> repeatedRuns(const ir::Region& region);

}  // namespace saker::passes
