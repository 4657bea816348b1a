// Zeros without memory, which forward mode makes where a tangent is zero. In a capture zeros with memory stand for
// them, and operators do with these what they do with zeros in eager mode: a product with them is zero, also of an
// infinity.
#pragma once

#include "capture/trace.h"

namespace saker::tracing {

// Of the operator that makes them.
bool makesZeroTensor(const Call& call);
// What the operator has made stands for zeros without memory, and so do its views.
void markZeroTensor(const at::Tensor& made);
bool isZeroTensor(const at::Tensor& tensor);
// Records a call that is given such zeros. False: it is none, or makes a view. Throws where no graph does the same.
bool recordWithZeros(Trace& trace, const Call& call, const Entry* entry);

}  // namespace saker::tracing
