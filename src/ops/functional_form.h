// The operator that computes what another one would write. Its results are the other's own fresh results, in order,
// then the new contents of each argument that the other writes, in the order of the arguments.
#pragma once

#include "ops/operator.h"

namespace saker::ops {

struct FunctionalForm {
  const Operator* op = nullptr;  // nullptr: there is none
  std::vector<int> arguments;    // for each of its arguments, the argument of the other operator; -1: its default
};

// Looked up by name and schema; meant to be kept by the caller.
FunctionalForm functionalForm(const Operator& op);

}  // namespace saker::ops
