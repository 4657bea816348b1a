// What the minimum cut saves and computes again; random joint graphs.
#include "autograd/partition.h"

#include "ir/print.h"
#include "partition_check.h"
#include "random_joint.h"

namespace saker::autograd {
namespace {

using testing::count;
using testing::cutAndCompare;
using testing::RandomJoint;
using testing::read;
using testing::savedNames;

TEST(MinCut, ChainsOfPointwiseOperatorsAreComputedAgain) {
  auto joint = read(R"(
graph @main(%x: f32[64, 64], %w: f32[64, 64], %dy: f32[64, 64]) {
  %m: f32[64, 64] = aten::mm(%x, %w)
  %a: f32[64, 64] = aten::sin(%m)
  %b: f32[64, 64] = aten::exp(%a)
  %y: f32[64, 64] = aten::tanh(%b)
  %db: f32[64, 64] = aten::tanh_backward(%dy, %y)
  %da: f32[64, 64] = aten::mul.Tensor(%db, %b)
  %c: f32[64, 64] = aten::cos(%m)
  %dm: f32[64, 64] = aten::mul.Tensor(%da, %c)
  %wt: f32[64, 64]{strides: [1, 64]} = aten::t(%w)
  %dx: f32[64, 64] = aten::mm(%dm, %wt)
  return %y, %dx, None
})");
  Cut cut = cutAndCompare(*joint, {2, 1, 1});
  EXPECT_EQ(savedNames(cut), "[w] m");
  EXPECT_EQ(cut.savedBytes, 64u * 64 * 4);
  EXPECT_EQ(count(*cut.backward, "aten::exp"), 1u);
  EXPECT_EQ(count(*cut.backward, "aten::mm"), 1u);
  EXPECT_GT(cutAndCompare(*joint, {2, 1, 1}, {.strategy = Strategy::Default}).savedBytes, cut.savedBytes);
  // Each node right before its first use: the cosine after the product that is made before.
  std::string text = ir::print(*cut.backward);
  EXPECT_LT(text.find("aten::tanh_backward"), text.find("aten::cos"));
}

TEST(MinCut, RandomNumbersAreSaved) {
  auto joint = read(R"(
graph @main(%x: f32[64], %dy: f32[64]) {
  %s: f32[64] = aten::sin(%x)
  %y: f32[64], %mask: bool[64] = aten::native_dropout(%s, 0.5, True)
  %ds: f32[64] = aten::native_dropout_backward(%dy, %mask, 2.0)
  %c: f32[64] = aten::cos(%x)
  %dx: f32[64] = aten::mul.Tensor(%ds, %c)
  return %y, %dx
})");
  for (double budget : {1.0, 0.5, 0.0}) {
    Cut cut = cutAndCompare(*joint, {1, 1, 1}, {.memoryBudget = budget});
    EXPECT_EQ(savedNames(cut), "[x] mask");
    EXPECT_EQ(count(*cut.backward, "aten::native_dropout"), 0u);
  }
}

// No tangent is read by it, but it is drawn after the forward: what follows from it cannot be saved there.
TEST(MinCut, WhatFollowsFromRandomNumbersOfTheBackwardStaysBehindThem) {
  auto joint = read(R"(
graph @main(%x: f32[8, 8], %w: f32[8, 8], %dy: f32[8, 8]) {
  %m: f32[8, 8] = aten::mm(%w, %x)
  %y: f32[8, 8] = aten::sin(%x)
  %d: f32[8, 8], %first: bool[8, 8] = aten::native_dropout(%dy, 0.5, True)
  %n: f32[8, 8], %second: bool[8, 8] = aten::native_dropout(%x, 0.5, True)
  %e: f32[8, 8] = aten::mul.Tensor(%m, %second)
  %dx: f32[8, 8] = aten::mm(%e, %y)
  return %y, %dx, %d
})");
  for (double budget : {1.0, 0.5, 0.0}) {
    Cut cut = cutAndCompare(*joint, {2, 1, 1}, {.memoryBudget = budget});
    EXPECT_EQ(count(*cut.forward, "aten::native_dropout"), 0u);
    EXPECT_EQ(count(*cut.backward, "aten::native_dropout"), 2u);
  }
}

TEST(MinCut, WhatFollowsFromWritesOfTheBackwardStaysBehindThem) {
  auto joint = read(R"(
graph @main(%x: f32[8, 8], %dy: f32[8, 8]) {
  %y: f32[8, 8] = aten::exp(%x)
  %d: f32[8, 8] = aten::sin(%dy)
  %buffer: f32[8, 8] = aten::zeros_like(%x)
  %filled: f32[8, 8] = aten::copy_(%buffer, %x, False)
  %s: f32[8, 8] = aten::sin(%buffer)
  %m: f32[8, 8] = aten::mm(%s, %y)
  return %y, %m, %d
})");
  for (double budget : {1.0, 0.5, 0.0}) {
    Cut cut = cutAndCompare(*joint, {1, 1, 1}, {.memoryBudget = budget});
    EXPECT_EQ(count(*cut.forward, "aten::copy_"), 0u);
    EXPECT_EQ(count(*cut.forward, "aten::mm"), 0u);
    EXPECT_EQ(count(*cut.backward, "aten::copy_"), 1u);
  }
}

TEST(MinCut, SmallReductionsAreSaved) {
  auto joint = read(R"(
graph @main(%x: f32[64, 64], %dy: f32[64, 64]) {
  %s: f32[64, 1] = aten::sum.dim_IntList(%x, [1], True)
  %y: f32[64, 64] = aten::div.Tensor(%x, %s)
  %dx: f32[64, 64] = aten::div.Tensor(%dy, %s)
  return %y, %dx
})");
  EXPECT_EQ(savedNames(cutAndCompare(*joint, {1, 1, 1})), "s");
  EXPECT_EQ(savedNames(cutAndCompare(*joint, {1, 1, 1}, {.memoryBudget = 0})), "[x]");
}

TEST(MinCut, ViewsAreMadeAnew) {
  auto joint = read(R"(
graph @main(%x: f32[8, 8], %dy: f32[8, 8]) {
  %m: f32[8, 8] = aten::mm(%x, %x)
  %t: f32[8, 8]{strides: [1, 8]} = aten::t(%m)
  %v: f32[4, 8]{strides: [1, 8]} = aten::slice.Tensor(%t, 0, 0, 4)
  %y: f32[8, 8] = aten::mm(%t, %x)
  %d: f32[4, 8] = aten::mm(%v, %dy)
  %e: f32[8, 8] = aten::mm(%dy, %t)
  return %y, %d, %e
})");
  Cut cut = cutAndCompare(*joint, {1, 1, 1});
  EXPECT_EQ(savedNames(cut), "m");
  EXPECT_EQ(cut.savedBytes, 256u);
}

// x1 = x + f(x), x2 = x1 + f(x1), ...: what follows from a sum is saved, not summed up from the first.
TEST(MinCut, SumsAlongAResidualStreamAreSaved) {
  std::string text = "graph @main(%x0: f32[16, 16], %w: f32[16, 16], %dy: f32[16, 16]) {\n";
  std::string t = "f32[16, 16] = aten::";
  for (int i = 0; i < 4; ++i) {
    std::string n = std::to_string(i), next = std::to_string(i + 1);
    text += "%s" + n + ": " + t + "sin(%x" + n + ")\n%m" + n + ": " + t + "mm(%s" + n + ", %w)\n";
    text += "%x" + next + ": " + t + "add.Tensor(%x" + n + ", %m" + n + ")\n";
  }
  std::string d = "dy";
  for (int i = 3; i >= 0; --i) {
    std::string n = std::to_string(i);
    text += "%c" + n + ": " + t + "cos(%x" + n + ")\n%d" + n + ": " + t + "mul.Tensor(%" + d + ", %c" + n + ")\n";
    d = "d" + n;
  }
  auto joint = read(text + "return %x4, %" + d + ", None\n}");
  Cut cut = cutAndCompare(*joint, {2, 1, 1});
  EXPECT_EQ(cut.savedBytes, 3u * 1024);
  EXPECT_LE(count(*cut.backward, "aten::add.Tensor"), 1u);  // of the primal
}

TEST(MinCut, ChainsEndSomewhere) {
  std::string text = "graph @main(%x: f32[16], %dy: f32[16]) {\n%a0: f32[16] = aten::sin(%x)\n";
  for (int i = 1; i < 250; ++i) {
    text += "%a" + std::to_string(i) + ": f32[16] = aten::sin(%a" + std::to_string(i - 1) + ")\n";
  }
  auto joint = read(text + "%d: f32[16] = aten::mul.Tensor(%dy, %a248)\nreturn %a249, %d\n}");
  Cut cut = cutAndCompare(*joint, {1, 1, 1});
  EXPECT_EQ(cut.savedBytes, 64u);
  EXPECT_LE(cut.backward->liveNodes(), 103u);
}

TEST(MinCut, BudgetsGoFromFastToSmall) {
  std::string text = "graph @main(%x0: f32[32, 32], %w: f32[32, 32], %dy: f32[32, 32]) {\n";
  for (int i = 0; i < 8; ++i) {
    std::string n = std::to_string(i), next = std::to_string(i + 1);
    text +=
        "%m" + n + ": f32[32, 32] = aten::mm(%x" + n + ", %w)\n%x" + next + ": f32[32, 32] = aten::sin(%m" + n + ")\n";
  }
  std::string d = "dy";
  for (int i = 7; i >= 0; --i) {
    std::string n = std::to_string(i);
    text += "%c" + n + ": f32[32, 32] = aten::cos(%m" + n + ")\n%e" + n + ": f32[32, 32] = aten::mul.Tensor(%" + d +
            ", %c" + n + ")\n%d" + n + ": f32[32, 32] = aten::mm(%e" + n + ", %w)\n";
    d = "d" + n;
  }
  auto joint = read(text + "return %x8, %" + d + ", None\n}");
  uint64_t most = cutAndCompare(*joint, {2, 1, 1}).savedBytes;
  EXPECT_EQ(most, 8u * 4096);
  uint64_t last = most;
  for (double budget : {0.75, 0.5, 0.25, 0.0}) {
    Cut cut = cutAndCompare(*joint, {2, 1, 1}, {.memoryBudget = budget});
    EXPECT_LE(cut.savedBytes, static_cast<uint64_t>(budget * static_cast<double>(most)));
    EXPECT_LE(cut.savedBytes, last);
    last = cut.savedBytes;
  }
  EXPECT_EQ(last, 0u);
}

TEST(MinCut, RandomJointGraphsMeanTheSame) {
  for (size_t seed = 0; seed < 1500 * ir::testing::fuzzFactor(); ++seed) {
    JointLayout layout;
    auto joint = RandomJoint(seed).make(layout);
    uint64_t simple = cutAndCompare(*joint, layout, {.strategy = Strategy::Default}).savedBytes;
    Cut cut = cutAndCompare(*joint, layout);
    ASSERT_LE(cut.savedBytes, simple) << "seed " << seed;
    ASSERT_LE(cutAndCompare(*joint, layout, {.memoryBudget = 0}).savedBytes, cut.savedBytes) << "seed " << seed;
    Cut between = cutAndCompare(*joint, layout, {.memoryBudget = 0.4});
    ASSERT_LE(between.savedBytes, cut.savedBytes) << "seed " << seed;
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
    Cut again = cutAndCompare(*joint, layout);
    ASSERT_EQ(ir::print(*again.forward), ir::print(*cut.forward));
    ASSERT_EQ(ir::print(*again.backward), ir::print(*cut.backward));
  }
}

}  // namespace
}  // namespace saker::autograd
