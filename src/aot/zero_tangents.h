// A backward that some tangents are not given to, or some gradients not asked of: what they alone lead to, or need, is
// left out, as autograd leaves it out, also in the bodies of branches and loops.
#pragma once

#include <memory>
#include <vector>

#include "ir/graph.h"

namespace saker::aot {

struct Part {
  std::unique_ptr<ir::Graph> graph;
  // Some gradient is left out although a branch of it gives numbers: only the way that is taken decides what it is.
  bool differsByBranch;
};

// Changes a graph into the one for tangents of which some are zero. Gradients that no given tangent leads to are None,
// and so are those that are not wanted; parameters stay the same, those of missing tangents are unused. A backward is
// linear in its tangents, which is what this counts on.
Part partOf(std::unique_ptr<ir::Graph> backward, size_t firstTangent, const std::vector<bool>& given,
            const std::vector<bool>& wanted);

}  // namespace saker::aot
