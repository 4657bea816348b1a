// Interval arithmetic, against all members of small intervals.
#include <gtest/gtest.h>

#include <algorithm>

#include "symbolic/range.h"

namespace saker::sym {
namespace {

int64_t floorDivide(int64_t a, int64_t b) {
  int64_t q = a / b;
  while (q * b > a && b > 0) --q;
  while (q * b < a && b < 0) --q;
  return q;
}

TEST(SymbolicRange, ContainsEveryResult) {
  for (int64_t al = -7; al <= 7; ++al) {
    for (int64_t ah = al; ah <= 7; ++ah) {
      for (int64_t bl = -4; bl <= 4; ++bl) {
        for (int64_t bh = bl; bh <= 4; ++bh) {
          Range a{al, ah}, b{bl, bh};
          Range sum = a + b, product = a * b, quotient = floorDiv(a, b), rest = mod(a, b);
          Range low = minOf(a, b), high = maxOf(a, b), square = power(a, 2), cube = power(a, 3);
          for (int64_t x = al; x <= ah; ++x) {
            ASSERT_TRUE(square.contains(x * x) && cube.contains(x * x * x));
            for (int64_t y = bl; y <= bh; ++y) {
              ASSERT_TRUE(sum.contains(x + y) && product.contains(x * y));
              ASSERT_TRUE(low.contains(std::min(x, y)) && high.contains(std::max(x, y)));
              if (y == 0) continue;
              int64_t q = floorDivide(x, y);
              ASSERT_TRUE(quotient.contains(q)) << x << "//" << y;
              ASSERT_TRUE(rest.contains(x - q * y)) << x << "%" << y;
              ASSERT_EQ(floorDiv(x, y), q);
              ASSERT_EQ(floorMod(x, y), x - q * y);
            }
          }
        }
      }
    }
  }
}

TEST(SymbolicRange, EndsAreExactWhereTheyCanBe) {
  EXPECT_EQ((Range{-2, 3} * Range{-5, 4}), (Range{-15, 12}));
  EXPECT_EQ(floorDiv(Range{-7, 9}, Range{2, 4}), (Range{-4, 4}));
  EXPECT_EQ(mod(Range{0, 5}, Range{8, 8}), (Range{0, 5}));
  EXPECT_EQ(mod(Range{17, 20}, Range{8, 8}), (Range{1, 4}));
  EXPECT_EQ(mod(Range::all(), Range{1, 8}), (Range{0, 7}));
  EXPECT_EQ(power(Range{-3, 2}, 2), (Range{0, 9}));
}

TEST(SymbolicRange, InfinityAbsorbsOverflow) {
  Range size = Range::size();
  EXPECT_EQ(size * size, (Range{4, Range::kInf}));
  EXPECT_EQ((Range{0, 0} * Range::all()), (Range{0, 0}));
  EXPECT_EQ((Range::all() * Range{0, 0}), (Range{0, 0}));
  EXPECT_EQ((size * -1), Range::atMost(-2));
  EXPECT_EQ((Range{Range::kInf - 1, Range::kInf - 1} + Range{5, 5}), (Range{Range::kInf, Range::kInf}));
  EXPECT_FALSE((Range{Range::kInf, Range::kInf}).isExact());
  EXPECT_EQ(floorDiv(size, size), Range::atLeast(0));
  EXPECT_EQ(floorDiv(Range::atMost(-1), size), Range::atMost(-1));
  EXPECT_EQ(mod(Range::all(), size), Range::atLeast(0));
  EXPECT_EQ(floorDiv(size, Range{0, 0}), Range::all());  // defined nowhere
  EXPECT_EQ((Range::atLeast(5) + Range::atMost(3)), Range::all());
  EXPECT_TRUE(intersect(Range::atLeast(5), Range::atMost(3)).empty());
}

}  // namespace
}  // namespace saker::sym
