// What stands for an operator that writes in a graph without writes.
#pragma once

#include <optional>

#include "ir/graph.h"
#include "ops/operator.h"

namespace saker::ops {

// The operator that computes what another one would write. Its results are the other's own fresh results, in order,
// then the new contents of each argument that the other writes, in the order of the arguments.
struct FunctionalForm {
  const Operator* op = nullptr;  // nullptr: there is none
  std::vector<int> arguments;    // for each of its arguments, the argument of the other operator; -1: its default
};

// Found by name and schema, once for the whole table.
const FunctionalForm& functionalForm(const Operator& op);

// An operator that writes no memory but changes what its argument 0 sees of it (t_, squeeze_): the view operator that
// takes the same arguments. nullptr for any other.
const Operator* viewForm(const Operator& op);

// Of an operator that writes running statistics in training only: the argument that says whether it trains.
std::optional<size_t> trainingArgument(const Operator& op);

// The call writes nothing although the operator may: running statistics that are only read.
bool writesNothing(const ir::Node& node);

}  // namespace saker::ops
