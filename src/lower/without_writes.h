// A fused group whose body writes to its parameters, as one that writes nothing: the new contents of each parameter
// are one more result, whose kernel stores it in the place of the old ones.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace saker::lower {

struct WithoutWrites {
  std::unique_ptr<ir::Graph> graph;  // that the group lies in
  const ir::Node* group = nullptr;   // nullptr: it is not possible
  std::vector<uint32_t> written;     // parameters, in the order of the results behind those that there were before
  std::string reason;                // why it is not possible
};

bool writesParameters(const ir::Node& group);
WithoutWrites withoutWrites(const ir::Node& group);

// Is it a call that writes all of one tensor, each element from those at the same place, and nothing else?
std::string whyNotAStore(const ir::Node& node);

}  // namespace saker::lower
