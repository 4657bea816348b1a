// The files that fill the operator table, one function each. A new family adds a line here and a file beside.
#pragma once

#include <vector>

#include "ops/operator.h"

namespace saker::ops {

using Rows = std::vector<Row>;

#define SAKER_OPERATOR_FAMILIES(X) \
  X(addActivation)                 \
  X(addActivationBackward)         \
  X(addAdvancedIndexing)           \
  X(addBinary)                     \
  X(addCats)                       \
  X(addColumns)                    \
  X(addComparisons)                \
  X(addCopy)                       \
  X(addDimIndexing)                \
  X(addEmbeddings)                 \
  X(addFactories)                  \
  X(addForeach)                    \
  X(addFused)                      \
  X(addGathersAndScatters)         \
  X(addLoss)                       \
  X(addMasked)                     \
  X(addPads)                       \
  X(addQueries)                    \
  X(addRandomFactories)            \
  X(addRandomFill)                 \
  X(addRanges)                     \
  X(addRearrangements)             \
  X(addResizes)                    \
  X(addSearch)                     \
  X(addSpecial)                    \
  X(addTernary)                    \
  X(addUnary)                      \
  X(addViewLists)                  \
  X(addViewScatters)               \
  X(addViews)

#define X(function) void function(Rows& rows);
SAKER_OPERATOR_FAMILIES(X)
#undef X

}  // namespace saker::ops
