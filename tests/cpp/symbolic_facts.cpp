// What follows from facts.
#include <gtest/gtest.h>

#include "symbolic/context.h"
#include "symbolic/parse.h"

namespace saker::sym {
namespace {

class SymbolicFacts : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"s0", "s1", "s2", "s3"}) context.symbol(name);
    context.symbol("n", Range::atLeast(0));
    context.symbol("x", Range::all());
    context.symbol("y", Range::all());
    context.symbol("z", Range::all());
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
  bool assume(std::string_view written) { return context.facts().assume(read(written)); }
  std::string prove(std::string_view written) {
    std::optional<bool> known = context.facts().prove(read(written));
    return known ? *known ? "yes" : "no" : "unknown";
  }
  std::string simplify(std::string_view written) { return toString(context.facts().simplify(read(written))); }
  Range range(std::string_view written) { return context.facts().rangeOf(read(written)); }

  Context context;
};

TEST_F(SymbolicFacts, RangesNarrow) {
  EXPECT_EQ(range("s0"), Range::size());
  EXPECT_TRUE(assume("s0 <= 1024"));
  EXPECT_TRUE(assume("s0 != 2"));
  EXPECT_EQ(range("s0"), (Range{3, 1024}));
  EXPECT_EQ(range("2*s0 + 1"), (Range{7, 2049}));
  EXPECT_EQ(prove("s0 < 2000"), "yes");
  EXPECT_EQ(prove("s0 == 2"), "no");
  EXPECT_EQ(prove("s0 == 1000"), "unknown");
  EXPECT_TRUE(assume("s0 != 5"));
  EXPECT_EQ(prove("s0 == 5"), "no");
  EXPECT_TRUE(assume("s0 >= 5"));
  EXPECT_EQ(range("s0").low, 6);
}

TEST_F(SymbolicFacts, ContradictionsAreRefusedAndChangeNothing) {
  EXPECT_TRUE(assume("s0 <= 10"));
  EXPECT_FALSE(assume("s0 == 11"));
  EXPECT_FALSE(assume("s1 >= 20 and s0 > s1"));
  EXPECT_EQ(prove("s1 >= 20"), "unknown");
  EXPECT_EQ(range("s1"), Range::size());
  EXPECT_EQ(context.facts().assumed().size(), 1u);
  EXPECT_FALSE(assume("False"));
  EXPECT_TRUE(assume("True"));
  EXPECT_TRUE(assume("s0 <= 11"));  // known already
  EXPECT_EQ(context.facts().assumed().size(), 1u);
}

TEST_F(SymbolicFacts, EqualSymbolsAreOne) {
  EXPECT_TRUE(assume("s1 == s0"));
  EXPECT_TRUE(assume("s2 == s1"));
  EXPECT_EQ(simplify("s2 + s1*3"), "4*s0");  // the oldest stands for all
  EXPECT_EQ(prove("s2*s1 == s0*s0"), "yes");
  EXPECT_EQ(prove("s2 == s0 + 1"), "no");
  EXPECT_TRUE(assume("s2 <= 8"));
  EXPECT_EQ(range("s0"), (Range{2, 8}));
  EXPECT_TRUE(assume("s1 == 5"));
  EXPECT_EQ(simplify("s0 + s2"), "10");
  EXPECT_EQ(prove("s2 == 5"), "yes");
}

TEST_F(SymbolicFacts, EquationsAreSolved) {
  EXPECT_TRUE(assume("s2 == s0 + s1"));
  EXPECT_EQ(simplify("s2 - s0"), "s1");
  EXPECT_EQ(range("s2").low, 4);
  EXPECT_EQ(prove("s2 > s0"), "yes");
  EXPECT_TRUE(assume("s0*s1 == 12*s3"));
  EXPECT_EQ(prove("2*s0*s1 == 24*s3"), "yes");
  EXPECT_EQ(prove("s0*s1*s2 == 12*s3*s2"), "yes");
  EXPECT_EQ(prove("s0*s1 <= 12*s3 + 4"), "yes");
}

TEST_F(SymbolicFacts, EquationsWithCoefficients) {
  EXPECT_TRUE(assume("2*s0 == 3*s1"));
  EXPECT_EQ(prove("s0 % 3 == 0"), "yes");
  EXPECT_EQ(prove("s1 % 2 == 0"), "yes");
  EXPECT_EQ(prove("s0 == 4"), "no");
  EXPECT_EQ(prove("4*s0 == 6*s1"), "yes");
  EXPECT_EQ(range("s0").low, 3);
  EXPECT_FALSE(assume("s1 == 3"));
  EXPECT_TRUE(assume("s1 == 4"));
  EXPECT_EQ(simplify("s0"), "6");
}

TEST_F(SymbolicFacts, Divisibility) {
  EXPECT_TRUE(assume("s0 % 8 == 0"));
  EXPECT_EQ(prove("s0//8*8 == s0"), "yes");
  EXPECT_EQ(prove("(4*s0) % 32 == 0"), "yes");
  EXPECT_EQ(prove("s0 % 4 == 0"), "yes");
  EXPECT_EQ(prove("(s0*s1) % 8 == 0"), "yes");
  EXPECT_EQ(prove("(s0 + 3) % 4 == 3"), "yes");
  EXPECT_EQ(prove("s0 == 12"), "no");
  EXPECT_EQ(prove("s0 == 2*s1 + 1"), "no");
  EXPECT_EQ(prove("s0 % 16 == 0"), "unknown");
  EXPECT_EQ(prove("s0//2 == 4*(s0//8)"), "yes");
  EXPECT_EQ(range("s0").low, 8);
  EXPECT_EQ(simplify("8*(s0//8)"), "s0");
  EXPECT_EQ(simplify("s0 % 8 + s1"), "s1");
  EXPECT_EQ(simplify("s0//4*4*s1"), "s0*s1");
  EXPECT_EQ(simplify("s0//8"), "s0//8");
  EXPECT_TRUE(assume("s0 % 12 == 0"));
  EXPECT_EQ(prove("s0 % 24 == 0"), "yes");
  EXPECT_TRUE(assume("s0 <= 30"));
  EXPECT_EQ(prove("s0 == 24"), "yes");
}

TEST_F(SymbolicFacts, OtherRemainders) {
  EXPECT_TRUE(assume("x % 8 == 3"));
  EXPECT_EQ(prove("x % 4 == 3"), "yes");
  EXPECT_EQ(prove("(x + 5) % 8 == 0"), "yes");
  EXPECT_EQ(prove("x == 0"), "no");
  EXPECT_TRUE(assume("(x + y) % 2 == 0"));
  EXPECT_EQ(prove("y % 2 == 1"), "yes");
  EXPECT_TRUE(assume("(s0*s1) % 8 == 0"));
  EXPECT_EQ(prove("(s0*s1)//8*8 == s0*s1"), "yes");
  EXPECT_EQ(prove("(2*s0*s1) % 16 == 0"), "yes");
}

TEST_F(SymbolicFacts, QuotientsBoundTheirNumerator) {
  EXPECT_TRUE(assume("x//8 == 3"));
  EXPECT_EQ(range("x"), (Range{24, 31}));
  EXPECT_TRUE(assume("y//4 <= 2"));
  EXPECT_EQ(range("y").high, 11);
}

TEST_F(SymbolicFacts, InequalitiesCombine) {
  EXPECT_TRUE(assume("x < y"));
  EXPECT_TRUE(assume("y < z"));
  EXPECT_EQ(prove("x < z"), "yes");
  EXPECT_EQ(prove("x + 2 <= z"), "yes");
  EXPECT_EQ(prove("x == z"), "no");
  EXPECT_EQ(prove("x >= y"), "no");
  EXPECT_EQ(prove("2*x + 4 <= 2*z"), "yes");
  EXPECT_EQ(prove("x + 3 <= z"), "unknown");
  EXPECT_TRUE(assume("z <= 10"));
  EXPECT_EQ(range("x").high, 8);
  EXPECT_FALSE(assume("z <= x"));
  EXPECT_TRUE(assume("x + y <= z"));
  EXPECT_TRUE(assume("x + y >= z"));  // so they are equal
  EXPECT_EQ(prove("x + y == z"), "yes");
}

TEST_F(SymbolicFacts, DisequalitiesSharpenInequalities) {
  EXPECT_TRUE(assume("x <= y"));
  EXPECT_TRUE(assume("x != y"));
  EXPECT_EQ(prove("x < y"), "yes");
  EXPECT_TRUE(assume("y != z"));
  EXPECT_TRUE(assume("y <= z"));
  EXPECT_EQ(prove("y < z"), "yes");
  EXPECT_TRUE(assume("n*s0 != 0"));
  EXPECT_EQ(range("n").low, 1);
}

TEST_F(SymbolicFacts, ProductsBoundTheirFactors) {
  EXPECT_TRUE(assume("s0*s1 <= 100"));
  EXPECT_EQ(range("s0").high, 50);
  EXPECT_EQ(prove("s0*s1 <= 200"), "yes");
  EXPECT_EQ(prove("s0*s1 == 101"), "no");
}

TEST_F(SymbolicFacts, DivisionsAreBetweenTheirBounds) {
  EXPECT_EQ(prove("x//8*8 <= x"), "yes");
  EXPECT_EQ(prove("(x + 7)//8*8 >= x"), "yes");
  EXPECT_EQ(prove("s0//2 < s0"), "yes");
  EXPECT_EQ(prove("n//s0 <= n"), "yes");
  EXPECT_EQ(prove("n % s0 < s0"), "yes");
  EXPECT_EQ(prove("x//8*8 < x"), "unknown");
}

TEST_F(SymbolicFacts, MinimaAndMaxima) {
  EXPECT_EQ(prove("min(x, y) <= y + 1"), "yes");
  EXPECT_EQ(prove("max(x, y) >= min(x, y)"), "yes");
  EXPECT_TRUE(assume("max(x, y) <= 7"));
  EXPECT_EQ(range("y").high, 7);
  EXPECT_TRUE(assume("s0 <= s1"));
  EXPECT_TRUE(assume("s2 <= s1"));
  EXPECT_EQ(prove("max(s0, s2) <= s1"), "yes");
  EXPECT_EQ(prove("max(s0, s2) <= s1 - 1"), "unknown");
  EXPECT_TRUE(assume("n <= 3"));
  EXPECT_EQ(simplify("min(n, 5)"), "n");
}

TEST_F(SymbolicFacts, BooleansAndFloats) {
  EXPECT_TRUE(assume("a or x == 3"));
  EXPECT_EQ(prove("a or x == 3"), "yes");
  EXPECT_EQ(prove("not a and x != 3"), "no");
  EXPECT_TRUE(assume("not a"));
  EXPECT_EQ(prove("x == 3"), "yes");
  EXPECT_EQ(prove("a"), "no");
  EXPECT_EQ(simplify("x + y"), "y + 3");
  EXPECT_TRUE(assume("f == 0.5"));
  EXPECT_EQ(prove("f*2.0 == 1.0"), "yes");
  EXPECT_EQ(prove("f > 1.0"), "no");
  EXPECT_EQ(simplify("floor(f*10.0)"), "5");
}

TEST_F(SymbolicFacts, ZeroHasTwoSigns) {
  EXPECT_TRUE(assume("f == 0.0"));
  EXPECT_EQ(prove("f == 0.0"), "yes");
  EXPECT_EQ(simplify("f"), "f");
}

TEST_F(SymbolicFacts, SimplifyUsesNarrowRanges) {
  EXPECT_EQ(simplify("n//n"), "n//n");
  EXPECT_TRUE(assume("n > 0"));
  EXPECT_EQ(simplify("n//n"), "1");
  EXPECT_EQ(simplify("(n*x)//n"), "x");
  EXPECT_TRUE(assume("x < 0 and y == 2*x"));
  EXPECT_EQ(simplify("max(x, 0)"), "0");
  EXPECT_EQ(simplify("y//x"), "2");
}

TEST_F(SymbolicFacts, OverflowIsNoReasonToFail) {
  EXPECT_TRUE(assume("9223372036854775807*x <= y"));
  EXPECT_TRUE(assume("z == 9223372036854775807*x + 1"));
  EXPECT_TRUE(assume("y == 3*x - 4"));
  EXPECT_EQ(prove("9223372036854775807*z <= 9223372036854775806*y"), "unknown");
  EXPECT_EQ(prove("z*9223372036854775807 + y*3 == x"), "unknown");
}

// s0 + s1 > 9223372036854775807 cannot be written with numbers of 64 bits.
TEST_F(SymbolicFacts, AConditionWithoutAnOppositeIsAskedAndAssumed) {
  EXPECT_TRUE(assume("s0 >= 8"));
  EXPECT_EQ(prove("s0 + s1 <= 9223372036854775807"), "unknown");
  EXPECT_TRUE(assume("s0 + s1 <= 9223372036854775807"));
  EXPECT_EQ(prove("s0 + s1 <= 9223372036854775807"), "yes");
  EXPECT_EQ(prove("s0 + s1 <= 9223372036854775806"), "unknown");
}

TEST_F(SymbolicFacts, CopiesAreIndependent) {
  EXPECT_TRUE(assume("x < y"));
  Facts copy = context.facts();
  EXPECT_TRUE(copy.assume(read("y < z")));
  EXPECT_EQ(copy.prove(read("x < z")), true);
  EXPECT_EQ(prove("x < z"), "unknown");
  EXPECT_TRUE(assume("z < x"));
  EXPECT_EQ(copy.prove(read("x < z")), true);
}

TEST_F(SymbolicFacts, CyclesOfBoundsEnd) {
  EXPECT_TRUE(assume("x <= y - 1"));
  EXPECT_TRUE(assume("y <= z"));
  EXPECT_TRUE(assume("x >= 0"));
  EXPECT_TRUE(assume("3*y <= 2*z"));
  EXPECT_TRUE(assume("z <= x + 1000000"));
  // Refused or not, it has to come to an end.
  assume("z < x");
  EXPECT_EQ(prove("x < y"), "yes");
}

TEST_F(SymbolicFacts, WhatASymbolEqualsIsSimplifiedByLaterFacts) {
  ASSERT_TRUE(context.facts().assume(read("s1 == s0 + 4 - 4//s0")));
  ASSERT_TRUE(context.facts().assume(read("s0 >= 5")));
  EXPECT_EQ(context.facts().simplify(read("s1")), read("s0 + 4"));
  EXPECT_EQ(context.facts().simplify(read("2*s1")), read("2*s0 + 8"));
}

// Not by what is concluded from it: it is not concluded again.
TEST_F(SymbolicFacts, WhatWasAssumedIsKnown) {
  for (const char* written : {"(min(s0, 4) + 2)//3 == 2", "s1*s1 != 9"}) {
    const Node* condition = read(written);
    ASSERT_TRUE(context.facts().assume(condition));
    EXPECT_EQ(context.facts().prove(condition), true) << written;
    EXPECT_EQ(context.facts().prove(context.logicalNot(condition)), false) << written;
    EXPECT_FALSE(context.facts().assume(context.logicalNot(condition))) << written;
  }
}

}  // namespace
}  // namespace saker::sym
