// A vector of trivially copyable elements whose first N live inside it: sizes, strides and argument lists
// are short, and inference must not allocate.
#pragma once

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>

#include "support/check.h"

namespace saker {

template <typename T, size_t N>
class SmallVec {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVec() {}
  explicit SmallVec(size_t count, T value = T()) { resize(count, value); }
  SmallVec(std::initializer_list<T> items) { append(std::span<const T>(items.begin(), items.size())); }
  explicit SmallVec(std::span<const T> items) { append(items); }
  SmallVec(const SmallVec& other) { append(std::span<const T>(other)); }
  SmallVec(SmallVec&& other) noexcept { take(other); }
  SmallVec& operator=(const SmallVec& other) {
    if (this != &other) {
      size_ = 0;
      append(std::span<const T>(other));
    }
    return *this;
  }
  SmallVec& operator=(SmallVec&& other) noexcept {
    if (this != &other) {
      heap_.reset();
      capacity_ = N;
      take(other);
    }
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return heap_ ? heap_.get() : inline_; }
  const T* data() const { return heap_ ? heap_.get() : inline_; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) {
    SAKER_CHECK(i < size_, "index past the end of a SmallVec");
    return data()[i];
  }
  const T& operator[](size_t i) const {
    SAKER_CHECK(i < size_, "index past the end of a SmallVec");
    return data()[i];
  }
  T& back() { return (*this)[size_ - 1]; }
  const T& back() const { return (*this)[size_ - 1]; }
  operator std::span<const T>() const { return {data(), size_}; }

  void clear() { size_ = 0; }
  void push_back(T value) {
    reserve(size_ + 1);
    new (data() + size_++) T(value);
  }
  void pop_back() { resize(size_ - 1); }
  void resize(size_t count, T value = T()) {
    reserve(count);
    for (size_t i = size_; i < count; ++i) new (data() + i) T(value);
    size_ = count;
  }
  void append(std::span<const T> items) {
    reserve(size_ + items.size());
    if (!items.empty()) std::memcpy(static_cast<void*>(data() + size_), items.data(), items.size() * sizeof(T));
    size_ += items.size();
  }
  void insert(size_t at, T value) {
    push_back(value);
    for (size_t i = size_ - 1; i > at; --i) data()[i] = data()[i - 1];
    data()[at] = value;
  }
  void erase(size_t at) {
    for (size_t i = at; i + 1 < size_; ++i) data()[i] = data()[i + 1];
    --size_;
  }
  void reserve(size_t count) {
    if (count <= capacity_) return;
    size_t grown = capacity_ * 2 > count ? capacity_ * 2 : count;
    std::unique_ptr<T[]> fresh(new T[grown]);
    if (size_ != 0) std::memcpy(static_cast<void*>(fresh.get()), data(), size_ * sizeof(T));
    heap_ = std::move(fresh);
    capacity_ = grown;
  }

  friend bool operator==(const SmallVec& a, const SmallVec& b) {
    if (a.size_ != b.size_) return false;
    for (size_t i = 0; i < a.size_; ++i) {
      if (!(a.data()[i] == b.data()[i])) return false;
    }
    return true;
  }

 private:
  void take(SmallVec& other) {
    if (other.heap_) {
      heap_ = std::move(other.heap_);
      capacity_ = other.capacity_;
      size_ = other.size_;
      other.capacity_ = N;
      other.size_ = 0;
    } else {
      size_ = 0;
      append(std::span<const T>(other));
    }
  }

  union {
    T inline_[N];
  };
  std::unique_ptr<T[]> heap_;
  size_t size_ = 0;
  size_t capacity_ = N;
};

}  // namespace saker
