// The files that fill the operator table, one function each. A new family adds a line here and a file beside.
#pragma once

#include <vector>

#include "ops/operator.h"

namespace saker::ops {

using Rows = std::vector<Row>;

#define SAKER_OPERATOR_FAMILIES(X) \
  X(addUnary)                      \
  X(addBinary)

#define X(function) void function(Rows& rows);
SAKER_OPERATOR_FAMILIES(X)
#undef X

}  // namespace saker::ops
