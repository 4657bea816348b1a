#include "aten/memory.h"

#include <c10/core/impl/COW.h>

#include <algorithm>
#include <array>
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

}  // namespace saker::aten
