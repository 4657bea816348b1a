// Canonical forms, one rule at a time.
#include <gtest/gtest.h>

#include "symbolic/context.h"
#include "symbolic/parse.h"

namespace saker::sym {
namespace {

class SymbolicExpr : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"s0", "s1", "s2", "s3"}) context.symbol(name);
    context.symbol("n", Range::atLeast(0));
    context.symbol("x", Range::all());
    context.symbol("y", Range::all());
    context.boolSymbol("a");
    context.boolSymbol("b");
    context.floatSymbol("f");
  }

  const Node* read(std::string_view written) {
    size_t position = 0;
    std::string error;
    const Node* node = parseExpression(context, written, position, error);
    EXPECT_NE(node, nullptr) << written << ": " << error;
    EXPECT_EQ(position, written.size()) << written;
    return node;
  }
  std::string form(std::string_view written) { return toString(read(written)); }

  Context context;
};

#define EXPECT_FORM(written, expected) EXPECT_EQ(form(written), expected)

TEST_F(SymbolicExpr, SumsAndProductsArePolynomials) {
  EXPECT_FORM("1 + s0*2", "2*s0 + 1");
  EXPECT_FORM("s1 + s0 - s1 + s0", "2*s0");
  EXPECT_FORM("(s0 + 1)*(s0 - 1)", "s0*s0 - 1");
  EXPECT_FORM("(s0 + s1)*s2", "s0*s2 + s1*s2");
  EXPECT_FORM("8 - s0", "8 - s0");
  EXPECT_FORM("-s0*3", "-3*s0");
  EXPECT_FORM("0*x", "0");
  EXPECT_FORM("s0*(s1*4) - 4*s1*s0", "0");
}

TEST_F(SymbolicExpr, EqualExpressionsAreOnePointer) {
  EXPECT_EQ(read("(s0 + 1)*(s1 + 1)"), read("s0*s1 + s1 + s0 + 1"));
  EXPECT_EQ(read("s0 - s1 <= 4"), read("2*s1 + 8 >= 2*s0"));
  EXPECT_EQ(read("not (x == y and x < 3)"), read("x >= 3 or y != x"));
  EXPECT_EQ(read("min(s0, s1, s2)"), read("min(s2, min(s1, s0))"));
  size_t count = context.nodeCount();
  read("(s1 + 1)*(1 + s0)");
  read("min(s0, s1, s2)");
  EXPECT_LE(context.nodeCount(), count + 6);  // the sums on the way, nothing else
}

TEST_F(SymbolicExpr, ExactDivisionsDisappear) {
  EXPECT_FORM("(8*s0 + 16)//8", "s0 + 2");
  EXPECT_FORM("(8*s0 + 3)//8", "s0");
  EXPECT_FORM("(s0*s1)//s0", "s1");
  EXPECT_FORM("(64*s0*s1)//(64*s1)", "s0");
  EXPECT_FORM("(s0*s1 + s0)//(s1 + 1)", "s0");
  EXPECT_FORM("(s0*s1 + s0 + 1)//(s1 + 1)", "s0");
  EXPECT_FORM("(64*s0 + 64)//(s0 + 1)", "64");
  EXPECT_FORM("(s0*s1 + s2)//s0", "s1 + s2//s0");
  EXPECT_FORM("s0//s0", "1");
}

TEST_F(SymbolicExpr, DivisorsThatMayBeZeroStay) {
  EXPECT_FORM("(s0*n)//n", "(s0*n)//n");
  EXPECT_FORM("n//n", "n//n");
  EXPECT_FORM("n % n", "n % n");
  EXPECT_FORM("0//x", "0//x");
  EXPECT_FORM("(x*2)//(y*2)", "x//y");  // 2 is not zero
  EXPECT_THROW(context.floorDiv(read("s0"), read("0")), Undecided);
  EXPECT_THROW(context.mod(read("s0"), read("0")), Undecided);
}

TEST_F(SymbolicExpr, DivisionsByNumbers) {
  EXPECT_FORM("s0//1", "s0");
  EXPECT_FORM("(6*s0)//4", "s0 + s0//2");
  EXPECT_FORM("(2*x + 5)//4", "x//2 + 1");
  EXPECT_FORM("(4*x + 3)//6", "(2*x + 1)//3");
  EXPECT_FORM("(x + 11)//8", "(x + 3)//8 + 1");
  EXPECT_FORM("(x//2)//3", "x//6");
  EXPECT_FORM("((x - 1)//2 + 3)//2", "(x + 1)//4 + 1");
  EXPECT_FORM("(x//s0)//s1", "x//(s0*s1)");
  EXPECT_FORM("x//-2", "(-x)//2");
  EXPECT_FORM("(n % 8)//8", "0");
  EXPECT_FORM("-7//2", "-4");
  EXPECT_FORM("7//-2", "-4");
}

TEST_F(SymbolicExpr, Remainders) {
  EXPECT_FORM("(8*s0 + x) % 8", "x % 8");
  EXPECT_FORM("(x % 8) % 8", "x % 8");
  EXPECT_FORM("(x % 16) % 8", "x % 8");
  EXPECT_FORM("(x % 8) % 16", "x % 8");
  EXPECT_FORM("(4*x) % 32", "4*(x % 8)");
  EXPECT_FORM("(4*x + 7) % 32", "4*((x + 1) % 8) + 3");
  EXPECT_FORM("(s0*s1) % s0", "0");
  EXPECT_FORM("(s0*s1 + x) % s0", "x % s0");
  EXPECT_FORM("x % -3", "-((-x) % 3)");
  EXPECT_FORM("-7 % 3", "2");
  EXPECT_FORM("7 % -3", "-2");
}

TEST_F(SymbolicExpr, QuotientAndRemainderMeetAgain) {
  EXPECT_FORM("x - x//8*8", "x % 8");
  EXPECT_FORM("8*(x//8) + x % 8", "x");
  EXPECT_FORM("x % 8 - x", "-8*(x//8)");
  EXPECT_FORM("s0*x - 8*s0*(x//8)", "s0*(x % 8)");
  EXPECT_FORM("(x + 7)//8*8 - x", "7 - (x + 7) % 8");
  EXPECT_FORM("x//8*8 == x", "x % 8 == 0");
  EXPECT_FORM("x - x//8", "x - x//8");
  EXPECT_FORM("8*(x//8)", "8*(x//8)");
}

TEST_F(SymbolicExpr, MinimaAndMaxima) {
  EXPECT_FORM("min(3, s0, 7, s1)", "min(s0, s1, 3)");
  EXPECT_FORM("max(s0, 2)", "s0");
  EXPECT_FORM("min(s0, s0 + 1, s0*s1)", "s0");
  EXPECT_FORM("max(s0, s0 + 1)", "s0 + 1");
  EXPECT_FORM("min(x, max(x, y))", "x");
  EXPECT_FORM("max(min(n, 5), 6)", "6");
  EXPECT_FORM("min(x, y) + 1", "min(x, y) + 1");
}

TEST_F(SymbolicExpr, ComparisonsLoseCommonFactors) {
  EXPECT_FORM("2*x == 3", "False");
  EXPECT_FORM("2*x != 3", "True");
  EXPECT_FORM("2*x <= 3", "x <= 1");
  EXPECT_FORM("-2*x <= 3", "x >= -1");
  EXPECT_FORM("4*x + 8*y == 12", "x + 2*y == 3");
  EXPECT_FORM("s0*x == s0*y", "x == y");
  EXPECT_FORM("s0*x < s0*y", "x < y");
  EXPECT_FORM("n*x == n*y", "n*x == n*y");
  EXPECT_FORM("x//8 <= 3", "x <= 31");
  EXPECT_FORM("x//8 >= 3", "x >= 24");
  EXPECT_FORM("x//8 == 3", "x//8 == 3");
}

TEST_F(SymbolicExpr, ComparisonsAnsweredByRanges) {
  for (const char* yes : {"s0 >= 2", "s0*s1 > 3", "n >= 0", "s0*s1 >= s0 + s1", "s0*s1*s2 > s0*s1", "x % 8 < 8",
                          "s0 != 1", "n*n >= 0", "x*x >= 0", "s0 + n > 1", "s0//2 >= 1", "min(s0, 1) == 1"}) {
    EXPECT_FORM(yes, "True");
  }
  for (const char* no : {"s0 == 0", "s0 == 1", "s0*s1 == 0", "s0*64 == 64", "s0*s1 < 0", "s0*s1 == s1", "x % 8 == 9"}) {
    EXPECT_FORM(no, "False");
  }
  EXPECT_FORM("s0 <= 2", "s0 == 2");
  EXPECT_FORM("s0 > 2", "s0 != 2");
  EXPECT_FORM("x % 2 != 0", "x % 2 == 1");
  EXPECT_FORM("x % 8 >= 1", "x % 8 != 0");
}

// The end of an open slice is the largest number there is.
TEST_F(SymbolicExpr, EveryNumberHas64Bits) {
  EXPECT_FORM("s0 <= 9223372036854775807", "True");
  EXPECT_FORM("s0 > 9223372036854775807", "False");
  EXPECT_FORM("x >= -9223372036854775807 - 1", "True");
  EXPECT_FORM("x//s0 <= 9223372036854775807", "True");
  EXPECT_FORM("min(x, 9223372036854775807)", "x");
  EXPECT_FORM("max(x, -9223372036854775807 - 1)", "x");
  EXPECT_FORM("max(x, 9223372036854775807)", "9223372036854775807");
  EXPECT_FORM("s0 <= 9223372036854775806", "s0 <= 9223372036854775806");
  EXPECT_FORM("x >= -9223372036854775807", "x >= -9223372036854775807");
  EXPECT_FORM("s0 + s1 <= 9223372036854775807", "s0 + s1 <= 9223372036854775807");
}

TEST_F(SymbolicExpr, PrintedComparisonsAreReadable) {
  EXPECT_FORM("s0 - s1 - 3 <= 0", "s0 <= s1 + 3");
  EXPECT_FORM("0 >= s0 + 3 - s1", "s0 + 3 <= s1");
  EXPECT_FORM("x - y < 0", "x < y");
  EXPECT_FORM("5 <= x", "x >= 5");
  EXPECT_FORM("0 == x + 4", "x == -4");
  EXPECT_FORM("8 == x", "x == 8");
  EXPECT_FORM("s0*2 - 2*s1 == 0", "s0 == s1");
}

TEST_F(SymbolicExpr, Booleans) {
  EXPECT_FORM("a and True", "a");
  EXPECT_FORM("a and False", "False");
  EXPECT_FORM("a or not a", "True");
  EXPECT_FORM("a and not a", "False");
  EXPECT_FORM("a and (b and a)", "a and b");
  EXPECT_FORM("a and (a or b)", "a");
  EXPECT_FORM("not (a and not b)", "b or not a");
  EXPECT_FORM("not not a", "a");
  EXPECT_FORM("not x <= 3", "x >= 4");
  EXPECT_FORM("x <= 3 and x <= 5", "x <= 3");
  EXPECT_FORM("x <= 3 or x <= 5", "x <= 5");
  EXPECT_FORM("x <= 3 and x >= 3", "x == 3");
  EXPECT_FORM("x <= 3 and x >= 4", "False");
  EXPECT_FORM("x <= 3 or x >= 4", "True");
  EXPECT_FORM("a or x == 3 and b", "a or b and x == 3");
}

TEST_F(SymbolicExpr, Floats) {
  EXPECT_FORM("1.5 + 2.5", "4.0");
  EXPECT_FORM("f + 1", "f + 1.0");
  EXPECT_FORM("7 / 2", "3.5");
  EXPECT_FORM("s0 / 2", "s0 / 2");
  EXPECT_FORM("floor(7 / 2)", "3");
  EXPECT_FORM("floor(f*2.0) + 1", "floor(f*2.0) + 1");
  EXPECT_FORM("round(2.5)", "2");
  EXPECT_FORM("-7.5 // 2.0", "-4.0");
  EXPECT_FORM("-7.5 % 2.0", "0.5");
  EXPECT_FORM("-1.0 // inf", "-1.0");
  EXPECT_FORM("-1.0 % inf", "inf");
  EXPECT_FORM("9007199254740993 / 9007199254740992", "1.0");
  EXPECT_FORM("9223372036854775807 / 3", "3074457345618258432.0");
  EXPECT_FORM("-9223372036854775807 / 9223372036854775806", "-1.0");
  EXPECT_FORM("not f < 1.0", "not f < 1.0");  // not f >= 1.0: f may be nan
  EXPECT_FORM("f == 1.0", "f == 1.0");
  EXPECT_FORM("not f == 1.0", "f != 1.0");
  EXPECT_FORM("nan == nan", "False");
  EXPECT_FORM("0.1 + 0.2", "0.30000000000000004");
  EXPECT_FORM("1e300*1e10", "inf");
  EXPECT_FORM("sqrt(2.0)**2", "2.0000000000000004");
  EXPECT_FORM("f*2.0 - (1.0 - f)", "f*2.0 - (1.0 - f)");
}

TEST_F(SymbolicExpr, OverflowIsThrown) {
  const Node* big = context.intConst(Range::kInf);
  EXPECT_THROW(context.add(big, context.intConst(1)), Overflow);
  EXPECT_THROW(context.mul(context.mul(read("s0"), big), big), Overflow);
  EXPECT_THROW(Int(Range::kInf) + Int(1), Overflow);
  EXPECT_THROW(Int(Range::kNegInf) * Int(-1), Overflow);
  EXPECT_THROW(Int(Range::kNegInf) / Int(-1), Overflow);
  EXPECT_EQ((Int(Range::kNegInf) % Int(-1)).constant(), 0);
  EXPECT_THROW(Int(3) / Int(0), Undecided);
}

TEST_F(SymbolicExpr, ProductsStaySmall) {
  // Two sums of twelve terms are not multiplied out; equal products are still one pointer.
  Context wide;
  std::vector<const Node*> a, b;
  for (int i = 0; i < 12; ++i) a.push_back(wide.symbol("a" + std::to_string(i)).node());
  for (int i = 0; i < 12; ++i) b.push_back(wide.symbol("b" + std::to_string(i)).node());
  const Node* left = wide.sum(a);
  const Node* right = wide.sum(b);
  const Node* product = wide.mul(left, right);
  EXPECT_EQ(product->kind, Kind::Mul);
  EXPECT_EQ(product->count, 2u);
  EXPECT_EQ(product, wide.mul(right, left));
  EXPECT_EQ(wide.mul(product, a[0]), wide.mul(wide.mul(a[0], left), right));
  EXPECT_EQ(wide.sub(wide.mul(product, wide.intConst(6)),
                     wide.mul(wide.mul(left, wide.intConst(2)), wide.mul(wide.intConst(3), right))),
            wide.intConst(0));
  const Node* power = left;
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i) power = wide.mul(power, left);
      },
      TooLarge);
}

TEST_F(SymbolicExpr, DeepExpressionsAreRefused) {
  const Node* node = read("x");
  EXPECT_THROW(
      {
        for (int i = 0; i < 100000; ++i)
          node = context.minMax(Kind::Max, context.floorDiv(node, read("y")), read("s0"));
      },
      TooLarge);
}

TEST_F(SymbolicExpr, SharedGrowthIsRefused) {
  // Each step doubles the tree.
  const Node* node = read("x");
  EXPECT_THROW(
      {
        for (int i = 0; i < 100; ++i)
          node = context.add(context.floorDiv(node, read("y")), context.mod(node, read("y")));
      },
      TooLarge);
}

TEST_F(SymbolicExpr, Evaluation) {
  Assignment values;
  for (int64_t v : {4, 6, 2, 9, 0, -7, 3}) values.ints.push_back(v);
  values.ints.push_back(1);
  values.ints.push_back(std::nullopt);
  values.floats.resize(9);
  values.floats.push_back(2.5);
  EXPECT_EQ(evaluateInt(read("s0*s1 + x//2"), values), 20);
  EXPECT_EQ(evaluateInt(read("s0//n"), values), std::nullopt);
  EXPECT_EQ(evaluateInt(read("x % s0"), values), 1);
  EXPECT_EQ(evaluateBool(read("a and x < y"), values), true);
  EXPECT_EQ(evaluateBool(read("b and x < y"), values), std::nullopt);
  EXPECT_EQ(evaluateBool(read("b or x < y"), values), true);
  EXPECT_EQ(evaluateFloat(read("f*s0"), values), 10.0);
  EXPECT_EQ(evaluateInt(read("ceil(f) + floor(f)"), values), 5);
  EXPECT_EQ(evaluateFloat(read("f / (s0 - 4)"), values), std::nullopt);
  EXPECT_EQ(evaluateInt(read("9223372036854775807*s0"), values), std::nullopt);
  EXPECT_EQ(evaluateInt(read("9223372036854775807*s0 - 9223372036854775807*s1 + 9223372036854775807*s2"), values), 0);
}

TEST_F(SymbolicExpr, Substitution) {
  std::vector<const Node*> by(2);
  by[0] = read("8*s1");
  EXPECT_EQ(toString(substitute(read("s0//8 + s0 % 8 + s2"), by)), "s1 + s2");
  EXPECT_EQ(toString(substitute(read("s0 == 16"), by)), "s1 == 2");
  EXPECT_EQ(substitute(read("s2 + 1"), by), read("s2 + 1"));
}

TEST_F(SymbolicExpr, IntReadsLikeANumber) {
  Int s0(read("s0")), s1(read("s1"));
  EXPECT_EQ(toString((s0 * 2 + s1) / 2), "s0 + s1//2");
  EXPECT_EQ(toString(ceilDiv(s0, 8)), "(s0 + 7)//8");
  EXPECT_TRUE((s0 - s0).isConst(0));
  EXPECT_TRUE(bool(s0 * 64 == Int(64) * s0));
  EXPECT_TRUE((s0 * s1).same(s1 * s0));
  EXPECT_TRUE((s0 >= Int(2)).isConst());
  EXPECT_TRUE((s0 > Int(5)).node() != nullptr);
  EXPECT_TRUE((s0 > Int(1)).provablyTrue());
  EXPECT_FALSE((s0 > Int(5)).provablyTrue());
  EXPECT_FALSE((s0 > Int(5)).provablyFalse());
  EXPECT_EQ(toString(min(s0, Int(4))), "min(s0, 4)");
  EXPECT_EQ(toString(Int(5)), "5");
}

}  // namespace
}  // namespace saker::sym
