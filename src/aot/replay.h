// Makes an output that is a view of something again, by the operators that made it, so that autograd knows it as that
// view.
#pragma once

#include "aot/joint.h"

namespace saker::aot {

// `base` itself where the output is that.
at::Tensor replay(const Output& output, const at::Tensor& base, const Joint& joint);

}  // namespace saker::aot
