// What a compiled function counts on beside the sizes of its arguments: the state of autograd and of the thread, and
// how arguments are related. A function is compiled once for each.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace saker::aot {

using Signature = std::vector<uint64_t>;

Signature signatureOf(std::span<const at::Tensor> arguments);

// A call that is to be made in eager mode whatever was compiled: inside of a torch.func transform, a mode that sees
// every operator, anomaly detection, or a trace.
bool threadBelongsToEager();
// Or with tensors of a class that answers for itself.
bool belongToEager(std::span<const at::Tensor> arguments);

}  // namespace saker::aot
