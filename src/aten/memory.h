// Where tensors lie. Two storages may be on the same bytes (from_numpy and from_dlpack make such ones), so who shares
// memory is decided by addresses.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace saker::aten {

// The bytes of a storage. Empty where there are none yet, or where a write makes them its own first.
struct Bytes {
  uintptr_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
};
Bytes bytesOf(const at::Tensor& tensor);

bool sameStorage(const at::Tensor& a, const at::Tensor& b);

// Are they on one storage, or on storages that have bytes in common?
bool shareMemory(const at::Tensor& a, const at::Tensor& b);

// By tensor: the first one that it shares memory with, be it through others; itself where there is none.
std::vector<uint32_t> sharedMemory(std::span<const at::Tensor> tensors);

// Pairs of tensors that share memory, be it through others: the earlier one first, in order.
std::vector<std::pair<size_t, size_t>> sharingPairs(std::span<const at::Tensor> tensors);

}  // namespace saker::aten
