// The files that fill the operator table, one function each. A new family adds a line here and a file beside.
#pragma once

#include <vector>

#include "ops/operator.h"

namespace saker::ops {

using Rows = std::vector<Row>;

#define SAKER_OPERATOR_FAMILIES(X) \
  X(addActivation)                 \
  X(addActivationBackward)         \
  X(addAdaptivePooling)            \
  X(addAdvancedIndexing)           \
  X(addAttention)                  \
  X(addBatchNorm)                  \
  X(addBinary)                     \
  X(addCats)                       \
  X(addColumns)                    \
  X(addComparisons)                \
  X(addControlFlow)                \
  X(addConvolution)                \
  X(addCopy)                       \
  X(addCudaAttention)              \
  X(addDimIndexing)                \
  X(addDistances)                  \
  X(addEmbeddings)                 \
  X(addExtremes)                   \
  X(addFactories)                  \
  X(addFactorizations)             \
  X(addFakeQuantize)               \
  X(addForeach)                    \
  X(addFourierTransforms)          \
  X(addFused)                      \
  X(addGathersAndScatters)         \
  X(addGroups)                     \
  X(addHistograms)                 \
  X(addLayerNorms)                 \
  X(addLoss)                       \
  X(addLosses)                     \
  X(addLoopsOfPrograms)            \
  X(addMasked)                     \
  X(addMatmul)                     \
  X(addMomentsAndNorms)            \
  X(addPads)                       \
  X(addPooling)                    \
  X(addQueries)                    \
  X(addRandomFactories)            \
  X(addRandomFill)                 \
  X(addRanges)                     \
  X(addRearrangements)             \
  X(addRecurrent)                  \
  X(addResample)                   \
  X(addResizes)                    \
  X(addScans)                      \
  X(addSearch)                     \
  X(addSoftmax)                    \
  X(addSolvers)                    \
  X(addSorts)                      \
  X(addSpecial)                    \
  X(addSpecialMatmul)              \
  X(addSumReductions)              \
  X(addTernary)                    \
  X(addUnary)                      \
  X(addViewLists)                  \
  X(addViewScatters)               \
  X(addViews)

#define X(function) void function(Rows& rows);
SAKER_OPERATOR_FAMILIES(X)
#undef X

}  // namespace saker::ops
