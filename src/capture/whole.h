// Operators whose composite kernels read or write the memory of tensors themselves, below the dispatcher. What such a
// kernel does is not the sum of the operators that it calls, so it is recorded as one operator, which is called again.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>

namespace saker::tracing {

enum class DirectUse : uint8_t {
  None,               // the kernel consists of operators
  Memory,             // it uses memory
  MemoryWithoutGrad,  // it uses memory, unless its first argument is differentiated
  Sizes,              // what it reads decides how many results there are, and their sizes
  Autograd,           // it changes what autograd knows of a tensor, and nothing below autograd
  Unknown,            // an operator of the user's in C++: it may do anything
};

DirectUse directUse(const c10::OperatorHandle& op);

}  // namespace saker::tracing
