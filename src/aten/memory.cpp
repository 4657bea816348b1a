#include "aten/memory.h"

#include <c10/core/impl/COW.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>

#include "aten/sym_node.h"

namespace saker::aten {

Bytes bytesOf(const at::Tensor& tensor) {
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const c10::DataPtr& data = storage->_mutable_data_ptr_no_checks();
  auto begin = reinterpret_cast<uintptr_t>(data.get());
  if (!begin || c10::impl::cow::is_cow_data_ptr(data)) return {};
  return {begin, begin + storage->nbytes()};
}

bool sameStorage(const at::Tensor& a, const at::Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

bool shareMemory(const at::Tensor& a, const at::Tensor& b) {
  if (sameStorage(a, b)) return true;
  Bytes left = bytesOf(a), right = bytesOf(b);
  return !left.empty() && !right.empty() && left.begin < right.end && right.begin < left.end;
}

std::vector<uint32_t> sharedMemory(std::span<const at::Tensor> tensors) {
  struct Place {
    Bytes bytes;
    uint32_t tensor;
  };
  std::vector<Place> places;
  std::vector<uint32_t> first(tensors.size());
  std::unordered_map<const c10::StorageImpl*, uint32_t> withoutBytes;
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    first[i] = i;
    if (!tensors[i].defined() || !tensors[i].has_storage()) continue;
    Bytes bytes = bytesOf(tensors[i]);
    if (bytes.empty()) {
      first[i] = withoutBytes.try_emplace(tensors[i].storage().unsafeGetStorageImpl(), i).first->second;
    } else {
      places.push_back({bytes, i});
    }
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.bytes.begin < b.bytes.begin; });
  for (size_t i = 0; i < places.size();) {
    uintptr_t end = places[i].bytes.end;
    uint32_t lowest = places[i].tensor;
    size_t last = i + 1;
    for (; last < places.size() && places[last].bytes.begin < end; ++last) {
      end = std::max(end, places[last].bytes.end);
      lowest = std::min(lowest, places[last].tensor);
    }
    for (; i < last; ++i) first[places[i].tensor] = lowest;
  }
  return first;
}

std::vector<std::pair<size_t, size_t>> sharingPairs(std::span<const at::Tensor> tensors) {
  std::vector<std::pair<size_t, size_t>> pairs;
  constexpr size_t kFew = 8;
  if (tensors.size() <= kFew) {
    std::array<Bytes, kFew> bytes;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].defined() || !tensors[i].has_storage()) continue;
      bytes[i] = bytesOf(tensors[i]);
      for (size_t k = 0; k < i; ++k) {
        if (!tensors[k].defined() || !tensors[k].has_storage()) continue;
        bool overlap = bytes[k].begin < bytes[i].end && bytes[i].begin < bytes[k].end;
        if (overlap || sameStorage(tensors[i], tensors[k])) pairs.emplace_back(k, i);
      }
    }
    return pairs;
  }
  std::vector<uint32_t> first = sharedMemory(tensors);
  std::vector<std::pair<uint32_t, size_t>> order;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].defined() && tensors[i].has_storage()) order.emplace_back(first[i], i);
  }
  std::sort(order.begin(), order.end());
  for (size_t i = 1; i < order.size(); ++i) {
    for (size_t k = i; k-- > 0 && order[k].first == order[i].first;) {
      pairs.emplace_back(order[k].second, order[i].second);
    }
  }
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

Extent extentOf(const at::Tensor& tensor) {
  int64_t last = tensor.storage_offset(), size = static_cast<int64_t>(tensor.itemsize());
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  return {tensor.storage_offset() * size, (last + 1) * size};
}

bool liesApart(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return true;
  Extent left = extentOf(a), right = extentOf(b);
  // Two storages may begin at different places of one memory.
  auto apart = sameStorage(a, b) ? 0 : static_cast<int64_t>(bytesOf(b).begin - bytesOf(a).begin);
  return left.end <= right.begin + apart || right.end + apart <= left.begin;
}

namespace {

// Calls `at` with the place in memory of each element.
template <typename Function>
void eachPlace(const at::Tensor& tensor, const Function& at) {
  if (tensor.numel() == 0) return;
  size_t rank = static_cast<size_t>(tensor.dim());
  std::vector<int64_t> index(rank, 0);
  int64_t place = tensor.storage_offset();
  for (;;) {
    at(static_cast<size_t>(place));
    size_t d = rank;
    while (d-- > 0) {
      place += tensor.strides()[d];
      if (++index[d] < tensor.sizes()[d]) break;
      place -= index[d] * tensor.strides()[d];
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

bool hasNumbers(const at::Tensor& tensor) {
  return tensor.has_storage() && !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() && tensor.numel() > 0;
}

// Elements without gaps, each at an address of its own; of others PyTorch does not ask either.
bool isDense(const at::Tensor& tensor) {
  return hasNumbers(tensor) && tensor.unsafeGetTensorImpl()->is_non_overlapping_and_dense();
}

bool sameElements(const at::Tensor& a, const at::Tensor& b) {
  return a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.itemsize() == b.itemsize();
}

// The same expressions; asks no question about them.
bool identical(const c10::SymInt& a, const c10::SymInt& b) {
  const SymNode *left = ourNode(a), *right = ourNode(b);
  if (left || right) return left && right && left->node() == right->node();
  return !a.is_heap_allocated() && !b.is_heap_allocated() && a.as_int_unchecked() == b.as_int_unchecked();
}

bool sameSymbolicElements(const at::Tensor& a, const at::Tensor& b) {
  auto all = [](c10::SymIntArrayRef left, c10::SymIntArrayRef right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), identical);
  };
  return a.itemsize() == b.itemsize() && identical(a.sym_storage_offset(), b.sym_storage_offset()) &&
         all(a.sym_sizes(), b.sym_sizes()) && all(a.sym_strides(), b.sym_strides());
}

}  // namespace

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (liesApart(a, b)) return false;
  // Interleaved columns of one matrix lie apart. Beyond this size it is not worth looking.
  constexpr int64_t kLargest = 1 << 22;
  if (a.scalar_type() != b.scalar_type() || a.numel() > kLargest || b.numel() > kLargest) return true;
  std::vector<bool> seen(static_cast<size_t>(std::max(extentOf(a).end, extentOf(b).end)) / a.itemsize());
  eachPlace(a, [&](size_t place) { seen[place] = true; });
  bool found = false;
  eachPlace(b, [&](size_t place) { found |= seen[place]; });
  return found;
}

bool overlapInPart(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_same(b) || !isDense(a) || !isDense(b) || !sameStorage(a, b)) return false;
  Extent left = extentOf(a), right = extentOf(b);
  if (left.begin == right.begin && left.end == right.end) return a.strides() != b.strides();
  return left.begin < right.end && right.begin < left.end;
}

bool mayOverlapShifted(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_same(b) || !a.has_storage() || !b.has_storage() || !sameStorage(a, b)) return false;
  auto symbolic = [](const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides(); };
  if (symbolic(a) || symbolic(b)) return !sameSymbolicElements(a, b);
  if (!hasNumbers(a) || !hasNumbers(b)) return false;
  if (sameElements(a, b) || liesApart(a, b)) return false;
  // Columns that lie between each other: rows as far apart, and a place in them that is another one.
  if (a.sizes() == b.sizes() && a.strides() == b.strides() && a.itemsize() == b.itemsize() && a.dim() > 0) {
    int64_t step = a.stride(0);
    for (int64_t d = 0; d < a.dim(); ++d) step = a.size(d) > 1 ? std::gcd(step, a.stride(d)) : step;
    if (step > 1 && (a.storage_offset() - b.storage_offset()) % step != 0) return false;
  }
  return true;
}

}  // namespace saker::aten
