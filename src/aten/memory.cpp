#include "aten/memory.h"

#include <c10/core/impl/COW.h>

#include <algorithm>
#include <unordered_map>

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

}  // namespace saker::aten
