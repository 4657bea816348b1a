// PyTorch's Python calls put a placeholder in the place of a symbolic number that is given for a tensor, and tie the
// number to it as a Python attribute. Who knows Python knows how to look.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace saker::tracing {

// The number that such a tensor stands for, or None for an ordinary one.
using SymbolicNumber = c10::IValue (*)(const at::Tensor& wrapped);

// What the placeholder of an integer holds.
inline constexpr int64_t kSymbolicPlaceholder = 7777777;

// Once, when the language is loaded; nullptr before.
void setSymbolicNumber(SymbolicNumber ask);
SymbolicNumber symbolicNumber();

}  // namespace saker::tracing
