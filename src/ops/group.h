// Groups of operators that become kernels together:
//
//   results... = saker::fused(operands...) { (operands...) { ... return results... } }
//
// The body computes what it returns of its parameters alone, and may write to them; what it returns is memory of its
// own. A group may run as machine code, or its operators one by one.
#pragma once

#include "ir/graph.h"

namespace saker::ops {

bool isGroup(const ir::Node& node);

}  // namespace saker::ops
