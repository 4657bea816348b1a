// A bump allocator. Objects put here are never destroyed one by one: they must not own anything.
// mark() and reset() give back everything allocated since, which is how a graph is rolled back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace saker {

class Arena {
 public:
  struct Mark {
    size_t chunk = 0;
    size_t used = 0;
  };

  void* allocate(size_t bytes, size_t align) {
    size_t start = (used_ + align - 1) & ~(align - 1);
    if (current_ >= chunks_.size() || start + bytes > chunks_[current_].size) {
      grow(bytes);
      start = 0;
    }
    used_ = start + bytes;
    return chunks_[current_].data.get() + start;
  }

  template <typename T, typename... A>
  T* make(A&&... args) {
    static_assert(std::is_trivially_destructible_v<T>, "the arena destroys nothing");
    return new (allocate(sizeof(T), alignof(T))) T(std::forward<A>(args)...);
  }

  // An array of value-initialised elements; nullptr for none.
  template <typename T>
  T* makeArray(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>, "the arena destroys nothing");
    if (count == 0) return nullptr;
    T* first = static_cast<T*>(allocate(sizeof(T) * count, alignof(T)));
    for (size_t i = 0; i < count; ++i) new (first + i) T();
    return first;
  }

  template <typename T>
  std::span<T> copy(std::span<const T> from) {
    T* to = makeArray<T>(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] = from[i];
    return {to, from.size()};
  }

  std::string_view copy(std::string_view text) {
    if (text.empty()) return {};
    char* to = static_cast<char*>(allocate(text.size(), 1));
    std::memcpy(to, text.data(), text.size());
    return {to, text.size()};
  }

  Mark mark() const { return {current_, used_}; }
  void reset(Mark mark) {
    current_ = mark.chunk;
    used_ = mark.used;
  }

 private:
  static constexpr size_t kFirstChunk = size_t{16} << 10;
  static constexpr size_t kLargestChunk = size_t{4} << 20;

  struct Chunk {
    std::unique_ptr<std::byte[]> data;
    size_t size;
  };

  void grow(size_t bytes) {
    // After a reset the next chunk may exist already; use it if it is large enough.
    size_t next = chunks_.empty() ? 0 : current_ + 1;
    if (next < chunks_.size() && chunks_[next].size < bytes) chunks_.resize(next);
    if (next >= chunks_.size()) {
      size_t size = chunks_.empty() ? kFirstChunk : chunks_.back().size * 2;
      if (size > kLargestChunk) size = kLargestChunk;
      if (size < bytes) size = bytes;
      chunks_.push_back({std::unique_ptr<std::byte[]>(new std::byte[size]), size});
    }
    current_ = next;
    used_ = 0;
  }

  std::vector<Chunk> chunks_;
  size_t current_ = 0;
  size_t used_ = 0;
};

}  // namespace saker
