// A hash set of pointers to immutable objects that each carry their own hash: the base of hash-consing.
// Open addressing; nothing is ever removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace saker {

inline uint64_t hashMix(uint64_t hash, uint64_t word) {
  hash ^= word + 0x9e3779b97f4a7c15ull + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccdull;
  return hash ^ (hash >> 32);
}

// T has a member `uint64_t hash`.
template <typename T>
class InternTable {
 public:
  // The entry with this hash for which `same` holds, or what `make` returns, which is remembered.
  template <typename Same, typename Make>
  const T* findOrMake(uint64_t hash, Same&& same, Make&& make) {
    if ((entries_.size() + 1) * 4 > slots_.size() * 3) grow();
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at]) {
      if (slots_[at]->hash == hash && same(*slots_[at])) return slots_[at];
      at = (at + 1) & (slots_.size() - 1);
    }
    const T* made = make();
    slots_[at] = made;
    entries_.push_back(made);
    return made;
  }

  size_t size() const { return entries_.size(); }
  // In the order of creation.
  const std::vector<const T*>& entries() const { return entries_; }

 private:
  void grow() {
    size_t size = slots_.empty() ? 64 : slots_.size() * 2;
    slots_.assign(size, nullptr);
    for (const T* entry : entries_) {
      size_t at = entry->hash & (size - 1);
      while (slots_[at]) at = (at + 1) & (size - 1);
      slots_[at] = entry;
    }
  }

  std::vector<const T*> slots_;
  std::vector<const T*> entries_;
};

}  // namespace saker
