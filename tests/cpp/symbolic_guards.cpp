// Decisions and the guards they leave.
#include <gtest/gtest.h>

#include "symbolic/context.h"

namespace saker::sym {
namespace {

class SymbolicGuards : public ::testing::Test {
 protected:
  SymbolicGuards()
      : s0(context.symbol("s0", Range::size(), 24)),
        s1(context.symbol("s1", Range::size(), 16)),
        s2(context.symbol("s2", Range::size(), 24)),
        u(context.symbol("u", Range::atLeast(0))) {}

  Context context;
  Int s0, s1, s2, u;
};

TEST_F(SymbolicGuards, CommonQuestionsLeaveNone) {
  EXPECT_FALSE(bool(s0 == Int(0)));
  EXPECT_FALSE(bool(s0 == Int(1)));
  EXPECT_TRUE(bool(s0 != Int(1)));
  EXPECT_FALSE(bool(s0 * s1 == Int(0)));
  EXPECT_FALSE(bool(s0 * 64 == Int(64)));
  EXPECT_FALSE(bool(s0 * s1 < Int(0)));
  EXPECT_TRUE(bool(Int(64) * s0 == s0 * Int(64)));
  EXPECT_FALSE(bool(s0 * s1 == s1));
  EXPECT_TRUE(bool(u >= Int(0)));
  EXPECT_TRUE(bool(s0 * u + s1 > Int(1)));
  // A row-major tensor of sizes s0, s1, 64: its strides, a view and its element count.
  Int strides[] = {s1 * 64, Int(64), Int(1)}, sizes[] = {s0, s1, Int(64)};
  for (int i = 0; i + 1 < 3; ++i) EXPECT_TRUE(bool(strides[i] == sizes[i + 1] * strides[i + 1]));
  Int numel = s0 * s1 * 64;
  EXPECT_TRUE(bool(numel / (s0 * 8) * s0 * 8 == numel));
  EXPECT_TRUE(bool(numel % (s1 * 64) == Int(0)));
  EXPECT_TRUE(bool(max(s0, Int(1)) == s0));
  EXPECT_TRUE(bool(s0 / 2 < s0));
  EXPECT_EQ(context.guardsText(), "");
}

TEST_F(SymbolicGuards, ExamplesDecideAndLeaveAGuard) {
  EXPECT_FALSE(bool(s0 == s1));
  EXPECT_TRUE(bool(s0 % 8 == Int(0)));
  EXPECT_TRUE(bool(s1 <= Int(1024)));
  EXPECT_TRUE(bool(s0 == s2));
  EXPECT_EQ(context.guardsText(), "s0 != s1\ns0 % 8 == 0\ns1 <= 1024\ns0 == s2\n");
  // What follows leaves no second one.
  EXPECT_TRUE(bool(s2 % 4 == Int(0)));
  EXPECT_FALSE(bool(s2 == s1));
  EXPECT_TRUE(bool(s1 < Int(2000)));
  EXPECT_TRUE(bool(s0 / 8 * 8 == s2));
  EXPECT_EQ(context.guards().size(), 4u);
}

TEST_F(SymbolicGuards, ImpliedGuardsAreDropped) {
  EXPECT_TRUE(bool(s0 > Int(3)));
  EXPECT_TRUE(bool(s0 <= Int(1024)));
  EXPECT_TRUE(bool(s1 > Int(4)));
  EXPECT_EQ(context.guardsText(), "s0 >= 4\ns0 <= 1024\ns1 >= 5\n");
  EXPECT_TRUE(bool(s0 % 4 == Int(0)));
  EXPECT_EQ(context.guardsText(), "s0 <= 1024\ns1 >= 5\ns0 % 4 == 0\n");  // a size that is a multiple of 4 is over 3
  EXPECT_TRUE(bool(s0 % 8 == Int(0)));
  EXPECT_EQ(context.guardsText(), "s0 <= 1024\ns1 >= 5\ns0 % 8 == 0\n");
  EXPECT_EQ(s0.guard(), 24);
  EXPECT_EQ(context.guardsText(), "s1 >= 5\ns0 == 24\n");
  EXPECT_EQ(s0.guard(), 24);
  EXPECT_EQ((s0 * 2).guard(), 48);
  EXPECT_EQ(context.guards().size(), 2u);
}

TEST_F(SymbolicGuards, GuardsImpliedByTwoTogetherAreDropped) {
  EXPECT_TRUE(bool(s1 <= s0 + Int(8)));
  EXPECT_TRUE(bool(s1 < Int(20)));
  EXPECT_EQ(context.guards().size(), 2u);
  EXPECT_TRUE(bool(s0 > Int(20)));
  EXPECT_EQ(context.guardsText(), "s1 <= 19\ns0 >= 21\n");
}

TEST_F(SymbolicGuards, FactsAreNotGuards) {
  EXPECT_TRUE(context.facts().assume((s0 % 8 == Int(0)).node()));
  EXPECT_TRUE(bool(s0 % 4 == Int(0)));
  EXPECT_TRUE(context.guards().empty());
  EXPECT_TRUE(bool(s0 > s1));
  EXPECT_EQ(context.guardsText(), "s1 < s0\n");
}

TEST_F(SymbolicGuards, WithoutAnExampleNothingIsDecided) {
  EXPECT_TRUE(bool(u >= Int(0)));
  try {
    static_cast<void>(bool(u == Int(3)));
    FAIL() << "decided";
  } catch (const Undecided& e) {
    EXPECT_NE(std::string(e.what()).find("u == 3"), std::string::npos) << e.what();
  }
  EXPECT_THROW((u + s0).guard(), Undecided);
  EXPECT_TRUE(context.guards().empty());
  EXPECT_TRUE(context.facts().assume((u == Int(3)).node()));
  EXPECT_EQ(u.guard(), 3);
  EXPECT_EQ((u * s0 - s0 * 3).guard(), 0);
  EXPECT_TRUE(context.guards().empty());
}

TEST_F(SymbolicGuards, UndefinedExamplesDoNotDecide) {
  Int zero = context.symbol("zero", Range::atLeast(0), 0);
  EXPECT_THROW(static_cast<void>(bool(s0 / zero == Int(4))), Undecided);
  EXPECT_TRUE(context.guards().empty());
}

TEST_F(SymbolicGuards, ExamplesThatContradictFactsAreNotTrusted) {
  EXPECT_TRUE(context.facts().assume((s0 == s1 * 2).node()));  // the examples are 24 and 16
  EXPECT_THROW(static_cast<void>(bool((s0 == Int(24)) & (s1 == Int(16)))), std::exception);
}

TEST_F(SymbolicGuards, ReasonsAreKept) {
  context.decide((s0 == s2).node(), "add: sizes must match");
  ASSERT_EQ(context.guards().size(), 1u);
  EXPECT_EQ(context.guards()[0].reason, "add: sizes must match");
}

TEST_F(SymbolicGuards, CheckpointsUndoEverything) {
  EXPECT_TRUE(bool(s0 <= Int(1024)));
  Context::Checkpoint before = context.checkpoint();
  Int late = context.symbol("late", Range{4, 9}, 5);
  const Node* old = (late + 1).node();
  EXPECT_TRUE(bool(s0 % 8 == Int(0)));
  EXPECT_TRUE(bool(late < s0));
  EXPECT_EQ(s0.guard(), 24);  // makes s0 <= 1024 superfluous
  context.rollback(before);
  EXPECT_EQ(context.guardsText(), "s0 <= 1024\n");
  EXPECT_EQ(context.find("late"), nullptr);
  EXPECT_EQ(context.symbols().size(), 4u);
  EXPECT_FALSE((s0 == Int(24)).provablyTrue());
  // A new symbol in the old one's place is another one, with its own range.
  Int again = context.symbol("late", Range::all(), -3);
  EXPECT_NE((again + 1).node(), old);
  EXPECT_FALSE((again > Int(0)).isConst());
  EXPECT_FALSE(bool(again > Int(0)));
  EXPECT_EQ(context.guardsText(), "s0 <= 1024\nlate <= 0\n");
}

// A program may hold a size that was made since the checkpoint. Asking about it is an error, not the end of the
// process.
TEST_F(SymbolicGuards, WhatWasTakenBackCannotBeAsked) {
  Context::Checkpoint before = context.checkpoint();
  Int late = context.symbol("late", Range{4, 9}, 5);
  context.rollback(before);
  EXPECT_THROW(static_cast<void>(bool(late == Int(5))), Undecided);
  EXPECT_THROW(static_cast<void>(bool(late < s0)), Undecided);
  Int other = context.symbol("other", Range{2, 9}, 6);  // in its place
  EXPECT_THROW(static_cast<void>(bool(late < Int(6))), Undecided);
  EXPECT_THROW(late.guard(), Undecided);
  EXPECT_EQ(context.guardsText(), "");
  EXPECT_TRUE(bool(other < s0));
}

TEST_F(SymbolicGuards, ManyGuardsStayFastAndFew) {
  // A hundred symbols that all turn out equal.
  std::vector<Int> sizes;
  for (int i = 0; i < 100; ++i) sizes.push_back(context.symbol("d" + std::to_string(i), Range::size(), 7));
  for (int i = 1; i < 100; ++i) EXPECT_TRUE(bool(sizes[static_cast<size_t>(i)] == sizes[0]));
  EXPECT_EQ(context.guards().size(), 99u);
  for (int i = 1; i < 100; ++i) EXPECT_TRUE(bool(sizes[static_cast<size_t>(i)] == sizes[static_cast<size_t>(i - 1)]));
  EXPECT_EQ(context.guards().size(), 99u);
  EXPECT_EQ(toString(context.facts().simplify((sizes[99] * sizes[3]).node())), "d0*d0");
}

}  // namespace
}  // namespace saker::sym
