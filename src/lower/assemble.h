// Puts what a KernelBuilder found into the order of a kernel: loops, what is done in each, the axis of vectors.
#pragma once

#include "kernel/kernel.h"
#include "lower/builder.h"

namespace saker::lower {

struct Assembled {
  kernel::Kernel kernel;
  std::vector<Int> arguments;
  std::vector<Number> numbers;
};
Assembled assemble(KernelBuilder& builder);

}  // namespace saker::lower
