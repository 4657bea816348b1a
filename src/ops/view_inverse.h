// Each view operator's inverse: what the base looks like after the view of it was given new contents.
#pragma once

#include "ops/builder.h"

namespace saker::ops {

// `view` is a node of a view operator, `base` the current contents of its argument 0, `updated` those of result
// `index`. The result has base's sizes; its strides may differ.
ir::Value* invertView(Builder& build, const ir::Node& view, size_t index, ir::Value* base, ir::Value* updated);

// Does the operator have an inverse of its own? Any other is inverted by the place its result has in the base's memory.
bool hasViewInverse(const Operator& op);

}  // namespace saker::ops
