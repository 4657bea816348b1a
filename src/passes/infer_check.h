// Compares the types written in a graph with those inferred from the arguments, for every operator of the table.
#pragma once

#include <vector>

#include "ir/verifier.h"

namespace saker::passes {

std::vector<ir::Diagnostic> checkInference(const ir::Graph& graph);

}  // namespace saker::passes
