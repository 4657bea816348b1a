// Values of a capture that depend on no argument: made by factories and of literals (what torch.quantile makes of the
// number it is given, and checks). They can be had while capturing.
#pragma once

#include "capture/trace.h"

namespace saker::tracing {

// The data of a tensor, where what was recorded of it so far depends on nothing but constants. Undefined: it does not,
// or it would be much to compute.
at::Tensor constantOf(Trace& trace, const at::Tensor& tensor);

}  // namespace saker::tracing
