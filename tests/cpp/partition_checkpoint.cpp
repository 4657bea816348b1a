// What a program asks to be computed again is, and what it asks to save is saved.
#include "autograd/partition.h"
#include "ir/print.h"
#include "partition_check.h"

namespace saker::autograd {
namespace {

using testing::count;
using testing::cutAndCompare;
using testing::read;
using testing::savedNames;

// Two regions, each a product and a tanh; `first` and `second` say what is asked of the products.
std::unique_ptr<ir::Graph> twoRegions(std::string first, std::string second) {
  auto asked = [](int region, const std::string& what) { return " [" + what + ": " + std::to_string(region) + "]\n"; };
  return read(
      "graph @main(%x: f32[64, 64], %w: f32[64, 64], %dy: f32[64, 64]) {\n"
      "  %m: f32[64, 64] = aten::mm(%x, %w)" +
      asked(1, first) + "  %a: f32[64, 64] = aten::sin(%m)" + asked(1, "recompute") +
      "  %n: f32[64, 64] = aten::mm(%a, %w)" + asked(2, second) + "  %y: f32[64, 64] = aten::exp(%n)" +
      asked(2, "recompute") +
      R"(  %dn: f32[64, 64] = aten::mul.Tensor(%dy, %n)
  %wt: f32[64, 64]{strides: [1, 64]} = aten::t(%w)
  %da: f32[64, 64] = aten::mm(%dn, %wt)
  %c: f32[64, 64] = aten::cos(%m)
  %dm: f32[64, 64] = aten::mul.Tensor(%da, %c)
  %dx: f32[64, 64] = aten::mm(%dm, %wt)
  return %y, %dx, None
})");
}

TEST(Checkpoints, RegionsAreComputedAgainFromWhatEntersThem) {
  for (Strategy strategy : {Strategy::MinCut, Strategy::Default}) {
    auto joint = twoRegions("recompute", "recompute");
    Cut cut = cutAndCompare(*joint, {2, 1, 1}, {.strategy = strategy});
    EXPECT_EQ(savedNames(cut), "[x] [w] a");
    EXPECT_EQ(count(*cut.backward, "aten::mm"), 4u);
  }
}

TEST(Checkpoints, WhatIsAskedToBeSavedIs) {
  for (Strategy strategy : {Strategy::MinCut, Strategy::Default}) {
    auto joint = twoRegions("save", "save");
    Cut cut = cutAndCompare(*joint, {2, 1, 1}, {.strategy = strategy});
    EXPECT_EQ(cut.savedBytes, 2u * 64 * 64 * 4);
    EXPECT_EQ(count(*cut.backward, "aten::mm"), 2u);
  }
}

constexpr const char* kDropout = R"(
graph @main(%x: f32[64], %dy: f32[64]) {
  %s: f32[64] = aten::sin(%x) [WHAT: 1]
  %y: f32[64], %mask: bool[64] = aten::native_dropout(%s, 0.5, True) [WHAT: 1]
  %z: f32[64] = aten::exp(%y)
  %dz: f32[64] = aten::mul.Tensor(%dy, %z)
  %ds: f32[64] = aten::native_dropout_backward(%dz, %mask, 2.0)
  %c: f32[64] = aten::cos(%x)
  %dx: f32[64] = aten::mul.Tensor(%ds, %c)
  return %z, %dx
})";

std::string dropout(const std::string& what) {
  std::string text = kDropout;
  for (size_t at; (at = text.find("WHAT")) != std::string::npos;) text.replace(at, 4, what);
  return text;
}

// The mask of an operator whose other result leaves the region is saved with it.
TEST(Checkpoints, AnOperatorThatLeavesItsRegionIsNotComputedAgain) {
  Cut cut = cutAndCompare(*read(dropout("recompute")), {1, 1, 1});
  EXPECT_EQ(count(*cut.backward, "aten::native_dropout"), 0u);
  EXPECT_EQ(count(*cut.forward, "saker::rng_state"), 0u);
}

TEST(Checkpoints, RandomNumbersAreDrawnAgainFromTheSameState) {
  constexpr const char* text = R"(
graph @main(%x: f32[64], %dy: f32[64]) {
  %s: f32[64] = aten::sin(%x) [recompute: 1]
  %y: f32[64], %mask: bool[64] = aten::native_dropout(%s, 0.5, True) [recompute: 1]
  %z: f32[64] = aten::exp(%y) [recompute: 1]
  %ds: f32[64] = aten::native_dropout_backward(%dy, %mask, 2.0)
  %c: f32[64] = aten::cos(%x)
  %dx: f32[64] = aten::mul.Tensor(%ds, %c)
  return %z, %dx
})";
  auto made = partition(*read(text), {1, 1, 1});
  ASSERT_TRUE(std::holds_alternative<Cut>(made));
  const Cut& cut = std::get<Cut>(made);
  EXPECT_EQ(count(*cut.forward, "saker::rng_state"), 1u);
  EXPECT_EQ(count(*cut.backward, "aten::native_dropout"), 1u);
  EXPECT_EQ(count(*cut.backward, "saker::rng_state"), 1u);
  EXPECT_EQ(count(*cut.backward, "saker::set_rng_state"), 2u);
  std::string anew = text;
  for (size_t at; (at = anew.find("recompute")) != std::string::npos;) anew.replace(at, 9, "redraw");
  auto other = partition(*read(anew), {1, 1, 1});
  ASSERT_TRUE(std::holds_alternative<Cut>(other));
  EXPECT_EQ(count(*std::get<Cut>(other).backward, "aten::native_dropout"), 1u);
  EXPECT_EQ(count(*std::get<Cut>(other).backward, "saker::set_rng_state"), 0u);
}

}  // namespace
}  // namespace saker::autograd
