// A tensor without data whose sizes, strides and offset may be symbols.
#pragma once

#include <ATen/core/Tensor.h>

namespace saker::aten {

// Reading its data throws. The kernels of its device refuse it: they ask for sizes that are numbers.
at::Tensor symbolicTensor(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, const c10::SymInt& offset,
                          c10::ScalarType dtype, c10::Device device);

std::vector<c10::SymInt> rowMajorStrides(c10::SymIntArrayRef sizes);

}  // namespace saker::aten
