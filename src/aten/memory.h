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

// The bytes from its first element to its last one, counted from the start of its storage. Not of an empty tensor, nor
// of one whose sizes are symbols.
struct Extent {
  int64_t begin, end;
};
Extent extentOf(const at::Tensor& tensor);

// Of tensors that share memory: does one end in memory before the other begins?
bool liesApart(const at::Tensor& a, const at::Tensor& b);

// Of tensors of one storage: may an element of one lie where an element of the other does? Looks at each element where
// the answer does not follow from sizes and strides, but not at those of large tensors.
bool overlap(const at::Tensor& a, const at::Tensor& b);

// Of two tensors without gaps, as PyTorch asks before it writes: do they have some bytes in common, but not the same
// elements in the same order?
bool overlapInPart(const at::Tensor& a, const at::Tensor& b);

// May they have an element in common, other than each one with itself? Looks at sizes and strides only.
bool mayOverlapShifted(const at::Tensor& a, const at::Tensor& b);

}  // namespace saker::aten
