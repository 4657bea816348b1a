// What is written to memory that the same group reads: whether a kernel reads it too late, and the kernel that copies
// from a temporary in the end.
#pragma once

#include "lower/lower.h"

namespace saker::lower {

// Does a line behind a store to the buffer read from it, or does one read at another place than is stored?
bool readsBehindStore(const kernel::Kernel& kernel, uint32_t buffer);
// From dense memory (buffer 0) to memory with strides (buffer 1).
Launch storeCopy(ir::DType dtype, std::span<const sym::Int> sizes, std::span<const sym::Int> strides);

}  // namespace saker::lower
