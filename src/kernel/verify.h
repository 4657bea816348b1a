// The rules that every kernel keeps (README.md): axes, phases, which values are seen where, and types. Code generation
// and the interpreter rely on them and check nothing again.
#pragma once

#include <string>
#include <vector>

#include "kernel/kernel.h"

namespace saker::kernel {

struct Diagnostic {
  std::string message;  // names the node as print() does
  uint32_t node = kNone;
};

// Up to `limit` of them, in the order of the text; none: the kernel is valid.
std::vector<Diagnostic> verify(const Kernel& kernel, size_t limit = 1);

// Types that kernels know.
bool isKnown(DType dtype);
// Types that kernels compute with: not f16 and bf16.
bool isComputed(DType dtype);

}  // namespace saker::kernel
