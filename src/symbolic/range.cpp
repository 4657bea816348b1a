#include "symbolic/range.h"

#include <algorithm>

namespace saker::sym {
namespace {

using Wide = __int128;

// An end of an interval: a number or an infinity. Only the low end of an interval can be minus infinity and only the
// high end plus infinity; the same bits at the other end are a number.
struct End {
  int infinite = 0;  // -1, 0, 1
  Wide number = 0;
};

End lowEnd(Range r) { return r.low == Range::kNegInf ? End{-1, 0} : End{0, r.low}; }
End highEnd(Range r) { return r.high == Range::kInf ? End{1, 0} : End{0, r.high}; }

int sign(End e) { return e.infinite ? e.infinite : e.number > 0 ? 1 : e.number < 0 ? -1 : 0; }

bool less(End a, End b) {
  return a.infinite != b.infinite ? a.infinite < b.infinite : !a.infinite && a.number < b.number;
}

int64_t clamp(End e) {
  if (e.infinite < 0 || (!e.infinite && e.number < Range::kNegInf)) return Range::kNegInf;
  if (e.infinite > 0 || (!e.infinite && e.number > Range::kInf)) return Range::kInf;
  return static_cast<int64_t>(e.number);
}

End add(End a, End b) { return a.infinite ? a : b.infinite ? b : End{0, a.number + b.number}; }

End multiply(End a, End b) {
  if (a.infinite || b.infinite) return {sign(a) * sign(b), 0};
  return {0, a.number * b.number};
}

// Not for two infinities.
End divide(End a, End b) {
  if (a.infinite) return {sign(a) * sign(b), 0};
  if (b.infinite) return {0, sign(a) == 0 || sign(a) == sign(b) ? 0 : -1};
  Wide q = a.number / b.number;
  if (a.number % b.number != 0 && (a.number < 0) != (b.number < 0)) --q;
  return {0, q};
}

struct Hull {
  End low{1, 0};
  End high{-1, 0};
  void include(End e) {
    if (less(e, low)) low = e;
    if (less(high, e)) high = e;
  }
  Range range() const { return {clamp(low), clamp(high)}; }
};

Range join(Range a, Range b) {
  if (a.empty()) return b.empty() ? Range::all() : b;  // defined nowhere: nothing is claimed
  if (b.empty()) return a;
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

// The divisor is positive or negative throughout.
Range divideBySigned(Range a, Range b) {
  if (b.empty()) return b;
  Hull hull;
  for (End x : {lowEnd(a), highEnd(a)}) {
    for (End y : {lowEnd(b), highEnd(b)}) {
      if (!x.infinite || !y.infinite) hull.include(divide(x, y));
    }
  }
  return hull.range();
}

Range modBySigned(Range a, Range b) {
  if (b.empty()) return b;
  Range quotient = divideBySigned(a, b);
  if (quotient.isExact()) {
    // One quotient for all: a - q*b, seen exactly where the divisor or the quotient is fixed.
    if (quotient.low == 0) return a;
    if (b.isExact() && a.low != Range::kNegInf && a.high != Range::kInf) return a + b * -quotient.low;
  }
  if (b.low > 0) {
    Range r{0, b.high == Range::kInf ? Range::kInf : b.high - 1};
    if (a.low >= 0) r.high = std::min(r.high, a.high);
    return r;
  }
  Range r{b.low == Range::kNegInf ? Range::kNegInf : b.low + 1, 0};
  if (a.high <= 0) r.low = std::max(r.low, a.low);
  return r;
}

}  // namespace

Range operator+(Range a, Range b) { return {clamp(add(lowEnd(a), lowEnd(b))), clamp(add(highEnd(a), highEnd(b)))}; }

Range operator*(Range a, Range b) {
  int64_t low;
  if (a.low >= 0 && b.low >= 0 && !__builtin_mul_overflow(a.low, b.low, &low)) {
    int64_t high;
    bool zero = a.high == 0 || b.high == 0;
    bool infinite = a.high == Range::kInf || b.high == Range::kInf || __builtin_mul_overflow(a.high, b.high, &high);
    return {low, zero ? 0 : infinite ? Range::kInf : high};
  }
  Hull hull;
  for (End x : {lowEnd(a), highEnd(a)}) {
    for (End y : {lowEnd(b), highEnd(b)}) hull.include(multiply(x, y));
  }
  return hull.range();
}

Range operator*(Range a, int64_t b) { return a * Range::exactly(b); }

Range floorDiv(Range a, Range b) {
  return join(divideBySigned(a, intersect(b, Range::atLeast(1))), divideBySigned(a, intersect(b, Range::atMost(-1))));
}

Range mod(Range a, Range b) {
  return join(modBySigned(a, intersect(b, Range::atLeast(1))), modBySigned(a, intersect(b, Range::atMost(-1))));
}

Range minOf(Range a, Range b) { return {std::min(a.low, b.low), std::min(a.high, b.high)}; }
Range maxOf(Range a, Range b) { return {std::max(a.low, b.low), std::max(a.high, b.high)}; }
Range intersect(Range a, Range b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }

Range power(Range a, unsigned exponent) {
  Range r = Range::exactly(1);
  for (unsigned i = 0; i < exponent; ++i) r = r * a;
  return exponent % 2 == 0 ? intersect(r, Range::atLeast(0)) : r;
}

}  // namespace saker::sym
