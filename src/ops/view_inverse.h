// Views as passes need them: what a result shares with the tensor it was made from, the same view of other contents,
// and the inverse: what the base looks like after the view of it was given new contents.
#pragma once

#include "ops/builder.h"

namespace saker::ops {

// What a result of a node shares with the node's argument 0.
enum class Sharing : uint8_t {
  None,     // its memory is its own
  Same,     // it is argument 0
  Base,     // its elements are elements of argument 0
  Storage,  // its elements lie in the memory of argument 0, counted from the start of that memory (as_strided)
};
Sharing sharing(const ir::Node& node, size_t index);

// The result once more, of `base` in the place of argument 0. `base` has the type of argument 0 (for Sharing::Storage:
// the dtype), so the type is that of the result and is not inferred again. One result of several is made alone.
ir::Value* repeatView(Builder& build, const ir::Node& view, size_t index, ir::Value* base);

// `base`: current contents of argument 0 (for Sharing::Storage: of any tensor that covers the view's addresses), with
// the exact strides that its type tells. `updated`: new contents of result `index`, without conj or neg bit. The result
// has base's sizes and dtype and no conj or neg bit; its strides may differ. nullptr where inference refuses.
ir::Value* invertView(Builder& build, const ir::Node& view, size_t index, ir::Value* base, ir::Value* updated);

// Does the operator have an inverse of its own? Any other is inverted by the place its result has in the base's memory.
bool hasViewInverse(const Operator& op);

// Elements of the result may share an address although those of argument 0 do not. No guard is left.
bool mayOverlap(const ir::Node& view, size_t index);

}  // namespace saker::ops
