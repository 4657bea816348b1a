// Kernels of PyTorch's that can be entered with less than all that their implementation does.
#pragma once

#include "aten/kept_call.h"

namespace saker::aten {

// addmm: a row that is added to each row of the product is copied without an operator.
std::unique_ptr<KeptCall> prepareAddmm(const KeptArguments& arguments);

}  // namespace saker::aten
