#include "capture/memory_set.h"

#include <algorithm>
#include <utility>

namespace saker::tracing {

namespace {

// Empty where there is no memory. A storage that is shared until somebody writes to it is not copied by asking.
std::pair<uintptr_t, uintptr_t> rangeOf(const c10::StorageImpl& storage) {
  auto& asked = const_cast<c10::StorageImpl&>(storage);
  auto start = reinterpret_cast<uintptr_t>(asked._mutable_data_ptr_no_checks().get());
  return {start, start ? start + storage.nbytes() : 0};
}

}  // namespace

void MemorySet::add(const c10::StorageImpl& storage) {
  auto [start, end] = rangeOf(storage);
  if (start >= end) return;
  auto next = ranges_.upper_bound(start);
  if (next != ranges_.begin() && std::prev(next)->second >= start) --next;
  while (next != ranges_.end() && next->first <= end) {
    if (next->first <= start && next->second >= end) return;
    start = std::min(start, next->first);
    end = std::max(end, next->second);
    next = ranges_.erase(next);
  }
  ranges_.emplace(start, end);
}

bool MemorySet::overlaps(const c10::StorageImpl& storage) const {
  if (ranges_.empty()) return false;
  auto [start, end] = rangeOf(storage);
  if (start >= end) return false;
  auto next = ranges_.lower_bound(end);  // the first one that begins behind it
  return next != ranges_.begin() && std::prev(next)->second > start;
}

}  // namespace saker::tracing
