// In-place operators refuse operands that lie across the memory that they write.
#pragma once

#include "capture/call.h"
#include "ops/operator.h"

namespace saker::tracing {

// Raises PyTorch's own error where an elementwise operator writes to a tensor that another operand shares memory with
// in part. What a trace records is run on other memory, where nothing would be noticed. True: they may overlap in a way
// that PyTorch does not look into, and what is computed depends on the order in which its kernel goes.
bool checkOverlap(const ops::Operator& op, const Call& call);

}  // namespace saker::tracing
