// Closed intervals of integers; the ends of int64_t stand for infinity.
#pragma once

#include <cstdint>
#include <limits>

namespace saker::sym {

struct Range {
  static constexpr int64_t kInf = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kNegInf = std::numeric_limits<int64_t>::min();

  int64_t low = kNegInf;
  int64_t high = kInf;

  static Range all() { return {}; }
  static Range exactly(int64_t value) { return {value, value}; }
  static Range atLeast(int64_t value) { return {value, kInf}; }
  static Range atMost(int64_t value) { return {kNegInf, value}; }
  static Range size() { return {2, kInf}; }

  bool isExact() const { return low == high && low != kInf && low != kNegInf; }
  bool contains(int64_t value) const { return low <= value && value <= high; }
  bool empty() const { return low > high; }
  friend bool operator==(const Range&, const Range&) = default;
};

// What the result of an operation can be. Ends that leave 64 bits become infinite.
Range operator+(Range a, Range b);
Range operator*(Range a, Range b);
Range operator*(Range a, int64_t b);
Range floorDiv(Range a, Range b);  // where the divisor is not zero
Range mod(Range a, Range b);
Range minOf(Range a, Range b);
Range maxOf(Range a, Range b);
Range intersect(Range a, Range b);
Range power(Range a, unsigned exponent);

// Python's division of numbers; the caller excludes zero and INT64_MIN / -1.
inline int64_t floorDiv(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
inline int64_t floorMod(int64_t a, int64_t b) {
  int64_t r = b == -1 ? 0 : a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

}  // namespace saker::sym
