// A backward that some tangents are not given to: what they alone lead to is left out, as autograd leaves it out.
#pragma once

#include <memory>
#include <vector>

#include "ir/graph.h"

namespace saker::aot {

// The graph for tangents of which some are zero. Gradients that no given tangent leads to are None; parameters stay the
// same, those of missing tangents are unused. A backward is linear in its tangents, which is what this counts on.
std::unique_ptr<ir::Graph> withoutTangents(const ir::Graph& backward, size_t firstTangent,
                                           const std::vector<bool>& given);

}  // namespace saker::aot
