// Closed intervals of integers; the ends of int64_t stand for infinity.
#pragma once

#include <cstdint>
#include <limits>

namespace saker::sym {

struct Node;
class Facts;

struct Range {
  static constexpr int64_t kInf = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kNegInf = std::numeric_limits<int64_t>::min();

  int64_t low = kNegInf;
  int64_t high = kInf;

  static Range all() { return {}; }
  static Range exactly(int64_t value) { return {value, value}; }
  static Range atLeast(int64_t value) { return {value, kInf}; }
  static Range size() { return {2, kInf}; }

  bool isExact() const { return low == high; }
  bool contains(int64_t value) const { return low <= value && value <= high; }
  bool empty() const { return low > high; }
  friend bool operator==(const Range&, const Range&) = default;
};

Range operator+(Range a, Range b);
Range operator*(Range a, Range b);
Range operator*(Range a, int64_t b);
Range floorDiv(Range a, Range b);
Range mod(Range a, Range b);
Range minOf(Range a, Range b);
Range maxOf(Range a, Range b);
Range intersect(Range a, Range b);

}  // namespace saker::sym
