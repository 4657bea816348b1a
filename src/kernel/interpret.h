// Runs a kernel line by line: slow, plain, and what generated code is compared with in tests.
#pragma once

#include <cstdint>

#include "kernel/kernel.h"

namespace saker::kernel {

// As the machine code of the kernel (Function); the kernel is a valid one.
void interpret(const Kernel& kernel, void* const* buffers, const int64_t* arguments, int64_t begin, int64_t end);

}  // namespace saker::kernel
