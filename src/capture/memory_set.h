// Pieces of memory, to ask whether a storage lies in one of them. Two storages may share memory (DLPack, arrays of
// NumPy), so addresses are compared.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <map>

namespace saker::tracing {

class MemorySet {
 public:
  // The storage has its data.
  void add(const c10::StorageImpl& storage);
  bool overlaps(const c10::StorageImpl& storage) const;
  void clear() { ranges_.clear(); }

 private:
  std::map<uintptr_t, uintptr_t> ranges_;  // from the start of each to its end; none overlap
};

}  // namespace saker::tracing
