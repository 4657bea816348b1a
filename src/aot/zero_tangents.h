// A backward that some tangents are not given to, or some gradients not asked of: what they alone lead to, or need, is
// left out, as autograd leaves it out.
#pragma once

#include <memory>
#include <vector>

#include "ir/graph.h"

namespace saker::aot {

// The graph for tangents of which some are zero. Gradients that no given tangent leads to are None, and so are those
// that are not wanted; parameters stay the same, those of missing tangents are unused. A backward is linear in its
// tangents, which is what this counts on.
std::unique_ptr<ir::Graph> partOf(const ir::Graph& backward, size_t firstTangent, const std::vector<bool>& given,
                                  const std::vector<bool>& wanted);

}  // namespace saker::aot
