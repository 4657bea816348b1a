// What the simple partition promises, and what holds for every strategy.
#include "autograd/partition.h"

#include <cmath>

#include "partition_check.h"

namespace saker::autograd {
namespace {

using testing::count;
using testing::cutAndCompare;
using testing::errorOf;
using testing::read;
using testing::savedNames;

constexpr PartitionOptions kDefault{.strategy = Strategy::Default};

class EachStrategy : public ::testing::TestWithParam<Strategy> {
 protected:
  PartitionOptions options() const { return {.strategy = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Partition, EachStrategy, ::testing::Values(Strategy::Default, Strategy::MinCut));

TEST(PartitionDefault, SavesForwardValuesThatTheBackwardReads) {
  auto joint = read(R"(
graph @main(%x: f32[4], %w: f32[4], %dy: f32[4]) {
  %a: f32[4] = aten::mul.Tensor(%x, %w)
  %s: f32[4] = aten::sigmoid(%a)
  %y: f32[4] = aten::tanh(%s)
  %ds: f32[4] = aten::tanh_backward(%dy, %y)
  %da: f32[4] = aten::sigmoid_backward(%ds, %s)
  %dx: f32[4] = aten::mul.Tensor(%da, %w)
  %dw: f32[4] = aten::mul.Tensor(%da, %x)
  return %y, %dx, %dw
})");
  Cut cut = cutAndCompare(*joint, {2, 1, 1}, kDefault);
  EXPECT_EQ(savedNames(cut), "[x] [w] s y");
  EXPECT_EQ(cut.savedBytes, 32u);
  EXPECT_EQ(cut.forward->liveNodes(), 4u);
  EXPECT_EQ(cut.backward->liveNodes(), 5u);
}

TEST(PartitionDefault, ComputesInTheBackwardWhatOnlyItNeeds) {
  auto joint = read(R"(
graph @main(%x: f32[4], %dy: f32[4]) {
  %y: f32[4] = aten::sin(%x)
  %c: f32[4] = aten::cos(%x)
  %dx: f32[4] = aten::mul.Tensor(%dy, %c)
  return %y, %dx
})");
  Cut cut = cutAndCompare(*joint, {1, 1, 1}, kDefault);
  EXPECT_EQ(savedNames(cut), "[x]");
  EXPECT_EQ(cut.savedBytes, 0u);
  EXPECT_EQ(count(*cut.forward, "aten::cos"), 0u);
  EXPECT_EQ(count(*cut.backward, "aten::cos"), 1u);
}

TEST_P(EachStrategy, SavesSingleResults) {
  auto joint = read(R"(
graph @main(%x: f32[8, 4], %w: f32[4], %b: f32[4], %dy: f32[8, 4]) {
  %y: f32[8, 4], %m: f32[8, 1], %r: f32[8, 1] = aten::native_layer_norm(%x, [4], %w, %b, 1.0)
  %dx: f32[8, 4], %dw: f32[4], %db: f32[4] = aten::native_layer_norm_backward(%dy, %x, [4], %m, %r, %w, %b, [True, True, True])
  return %y, %dx, %dw, %db
})");
  EXPECT_EQ(savedNames(cutAndCompare(*joint, {3, 1, 1}, options())), "[x] [w] [b] m r");
}

TEST_P(EachStrategy, GradientsMayBeMissingConstantOrShared) {
  auto joint = read(R"(
graph @main(%x: f32[4], %w: f32[4], %dy: f32[4]) {
  %y: f32[4] = aten::add.Tensor(%x, %w)
  return %y, 3, %dy, None, %dy, %y, %w, 7
})");
  Cut cut = cutAndCompare(*joint, {2, 1, 2}, options());
  EXPECT_EQ(cut.backward->top()->terminator()->args().size(), 6u);
  EXPECT_TRUE(cut.backward->top()->terminator()->arg(1).isNone());
}

TEST_P(EachStrategy, NothingToDifferentiate) {
  auto joint = read(R"(
graph @main(%x: f32[4]) {
  %y: f32[4] = aten::sin(%x)
  return %y, None
})");
  Cut cut = cutAndCompare(*joint, {1, 0, 1}, options());
  EXPECT_TRUE(cut.saved.empty());
  EXPECT_EQ(cut.backward->liveNodes(), 1u);
}

TEST_P(EachStrategy, SizesAreNotReadFromSavedTensors) {
  auto joint = read(R"(
symbol s0 in [2, inf] example 8
symbol s1 in [2, inf] example 16
graph @main(%x: f32[s0, s1], %dy: f32[]) {
  %e: f32[s0, s1] = aten::exp(%x)
  %y: f32[] = aten::sum(%e)
  %n: int(s0) = aten::sym_size.int(%e, 0)
  %m: int(s1) = aten::sym_size.int(%e, 1)
  %dx: f32[s0, s1]{strides: [0, 0]} = aten::expand(%dy, [%n, %m])
  return %y, %dx
})");
  Cut cut = cutAndCompare(*joint, {1, 1, 1}, options());
  ASSERT_EQ(savedNames(cut), "int int");
  EXPECT_EQ(ir::toString(cut.backward->top()->parameters()[0]->type()), "int(s0)");
  EXPECT_EQ(ir::toString(cut.backward->top()->parameters()[1]->type()), "int(s1)");
  EXPECT_EQ(cut.savedBytes, 0u);
}

TEST_P(EachStrategy, SymbolsThatSavedTensorsOrTangentsShowAreNotSaved) {
  auto joint = read(R"(
symbol s0 in [2, inf] example 8
symbol s1 in [2, inf] example 16
graph @main(%n: int(s1), %x: f32[s0], %w: f32[s0*s1], %dy: f32[s0]) {
  %y: f32[s0] = aten::sin(%x)
  %c: f32[s0] = aten::cos(%x)
  %dx: f32[s0] = aten::mul.Tensor(%dy, %c)
  %z: f32[s0*s1] = aten::zeros([s0*s1])
  return %y, %dx, %z
})");
  // s0 is a size of x; s1 is a primal.
  EXPECT_EQ(savedNames(cutAndCompare(*joint, {3, 1, 1}, options())), "[x] [n]");
}

TEST_P(EachStrategy, FactoriesDoNotNeedTheTensorTheyImitate) {
  auto joint = read(R"(
graph @main(%x: f32[4, 4], %dy: f32[]) {
  %a: f32[4, 4] = aten::mm(%x, %x)
  %b: f32[4, 4] = aten::mm(%a, %a)
  %y: f32[] = aten::sum(%b)
  %o: f32[] = aten::ones_like(%y)
  %z: f32[4, 4] = aten::zeros_like(%b)
  %d: f32[] = aten::mul.Tensor(%dy, %o)
  %dx: f32[4, 4] = aten::add.Tensor(%z, %d)
  return %y, %dx
})");
  Cut cut = cutAndCompare(*joint, {1, 1, 1}, options());
  EXPECT_EQ(cut.savedBytes, 0u);
  EXPECT_EQ(count(*cut.backward, "aten::mm"), 0u);
}

TEST_P(EachStrategy, CopiesIntoPrimalsBelongToTheForward) {
  auto joint = read(R"(
graph @main(%x: f32[4], %m: f32[4], %dy: f32[4]) {
  %y: f32[4] = aten::sin(%x)
  %n: f32[4] = aten::add.Tensor(%m, %x)
  %c: f32[4] = aten::cos(%x)
  %dx: f32[4] = aten::mul.Tensor(%dy, %c)
  %w: f32[4] = aten::copy_(%m, %n)
  return %m, %y, %dx, None
})");
  Cut cut = cutAndCompare(*joint, {2, 1, 2}, options());
  EXPECT_EQ(count(*cut.forward, "aten::copy_"), 1u);
  EXPECT_EQ(count(*cut.backward, "aten::copy_"), 0u);
  EXPECT_EQ(savedNames(cut), "[x]");
}

TEST_P(EachStrategy, TheBackwardReadsAWrittenPrimalAsItWas) {
  auto joint = read(R"(
graph @main(%x: f32[4, 4], %dy: f32[2, 8]) {
  %v: f32[2, 8] = aten::view(%x, [2, 8])
  %y: f32[2, 8] = aten::sin(%v)
  %c: f32[2, 8] = aten::cos(%v)
  %dx: f32[2, 8] = aten::mul.Tensor(%dy, %c)
  %n: f32[4, 4] = aten::exp(%x)
  %w: f32[4, 4] = aten::copy_(%x, %n)
  return %y, %dx
})");
  Cut cut = cutAndCompare(*joint, {1, 1, 1}, options());
  EXPECT_EQ(cut.saved.size(), 1u);
  EXPECT_FALSE(cut.saved[0].primal);
  EXPECT_EQ(cut.savedBytes, 64u);
}

TEST_P(EachStrategy, EffectsAndRandomNumbersStayInOrder) {
  auto joint = read(R"(
graph @main(%x: f32[4], %dy: f32[4]) {
  %r: f32[4] = aten::rand_like(%x)
  my::print(%r)
  %y: f32[4] = aten::mul.Tensor(%x, %r)
  my::print(%x)
  %dx: f32[4] = aten::mul.Tensor(%dy, %r)
  my::print(%dx)
  %q: f32[4] = aten::rand_like(%x)
  my::print(%y)
  %dz: f32[4] = aten::mul.Tensor(%dx, %q)
  return %y, %dz
})");
  Cut cut = cutAndCompare(*joint, {1, 1, 1}, options());
  EXPECT_EQ(count(*cut.forward, "my::print"), 2u);
  EXPECT_EQ(count(*cut.backward, "my::print"), 2u);
  EXPECT_EQ(count(*cut.forward, "aten::rand_like"), 1u);
  EXPECT_EQ(count(*cut.backward, "aten::rand_like"), 1u);
}

// It is written only after it was read: by the forward, and by what no tangent is needed for.
TEST_P(EachStrategy, TheBackwardWritesAPrimalAfterAllThatReadsIt) {
  auto joint = read(R"(
graph @main(%x: f32[4], %dy: f32[4]) {
  %v: f32[4] = aten::alias(%x)
  %y: f32[4] = aten::exp(%v)
  %c: f32[4] = aten::cos(%x)
  %s: f32[4] = aten::sin(%y)
  %dx: f32[4] = aten::mul.Tensor(%s, %dy)
  %w: f32[4] = aten::copy_(%x, %dx)
  return %y, %c, %dx
})");
  Cut cut = cutAndCompare(*joint, {1, 1, 1}, options());
  EXPECT_EQ(count(*cut.forward, "aten::copy_"), 0u);
  EXPECT_EQ(savedNames(cut), "[x] y");
}

TEST_P(EachStrategy, TheBackwardWritesItsRandomNumbersIntoAPrimal) {
  auto joint = read(R"(
graph @main(%x: f32[4], %dy: f32[4]) {
  %y: f32[4] = aten::sin(%x)
  %d: f32[4], %first: bool[4] = aten::native_dropout(%dy, 0.5, True)
  %n: f32[4], %second: bool[4] = aten::native_dropout(%x, 0.5, True)
  %w: f32[4] = aten::copy_(%x, %n)
  return %y, %d
})");
  Cut cut = cutAndCompare(*joint, {1, 1, 1}, options());
  EXPECT_EQ(count(*cut.forward, "aten::native_dropout"), 0u);
  EXPECT_EQ(count(*cut.backward, "aten::copy_"), 1u);
}

// What may give another result the second time is computed once.
TEST_P(EachStrategy, NondeterministicOperatorsAreNotInBothHalves) {
  auto joint = read(R"(
graph @main(%x: f32[4, 4], %i: i64[4, 4], %dy: f32[4, 4]) {
  %q: f32[4, 4] = aten::mm(%x, %x)
  %y: f32[4, 4] = aten::sin(%q)
  %r: f32[4, 4] = aten::scatter_add(%x, 0, %i, %x)
  %s: f32[4, 4] = aten::mm(%r, %q)
  %a: f32[4, 4] = aten::mul.Tensor(%dy, %r)
  %dx: f32[4, 4] = aten::mm(%a, %s)
  return %y, %dx, None
})");
  Cut cut = cutAndCompare(*joint, {2, 1, 1}, options());
  EXPECT_EQ(count(*cut.forward, "aten::scatter_add") + count(*cut.backward, "aten::scatter_add"), 1u);
}

TEST_P(EachStrategy, EffectsAreOfTheForwardWhereNoTangentIsRead) {
  auto joint = read(R"(
graph @main(%x: f32[4], %dy: f32[4]) {
  %s: f32[4] = aten::sin(%x)
  %z: f32[4] = aten::zeros_like(%s)
  %r: f32[4] = aten::rand_like(%x)
  %y: f32[4] = aten::rand_like(%x)
  %dx: f32[4] = aten::mul.Tensor(%z, %r)
  return %y, %dx
})");
  Cut cut = cutAndCompare(*joint, {1, 1, 1}, options());
  EXPECT_EQ(count(*cut.forward, "aten::rand_like"), 2u);
}

TEST_P(EachStrategy, WritesToPrivateMemoryStayWithIt) {
  auto joint = read(R"(
graph @main(%x: f32[4], %dy: f32[4]) {
  %a: f32[4] = aten::sin(%x)
  %w: f32[4] = aten::exp_(%a)
  %y: f32[4] = aten::mul.Tensor(%a, %x)
  %g: f32[4] = aten::neg(%x)
  %v: f32[4] = aten::mul_.Tensor(%g, %dy)
  %dx: f32[4] = aten::mul.Tensor(%g, %a)
  return %y, %dx
})");
  Cut cut = cutAndCompare(*joint, {1, 1, 1}, options());
  EXPECT_EQ(count(*cut.backward, "aten::exp_"), 0u);
  EXPECT_EQ(count(*cut.backward, "aten::neg"), 1u);
}

TEST_P(EachStrategy, BodiesReadWhatIsOutside) {
  auto joint = read(R"(
graph @main(%x: f32[4], %dy: f32[4]) {
  %a: f32[4] = aten::sin(%x)
  %y: f32[4] = my::call(%x) {
    (%p: f32[4]) {
      %i: f32[4] = aten::mul.Tensor(%p, %a)
      return %i
    }
  }
  %dx: f32[4] = my::call(%dy) {
    (%p2: f32[4]) {
      %i2: f32[4] = aten::mul.Tensor(%p2, %y)
      return %i2
    }
  }
  return %y, %dx
})");
  Cut cut = cutAndCompare(*joint, {1, 1, 1}, options());
  EXPECT_EQ(count(*cut.forward, "my::call"), 1u);
  EXPECT_EQ(savedNames(cut), "y");
}

TEST(Partition, RefusesWhatIsNoJointGraph) {
  auto joint = read(R"(
graph @main(%x: f32[4], %dy: f32[4]) {
  %y: f32[4] = aten::mul.Tensor(%x, %dy)
  return %y, %y
})");
  EXPECT_EQ(errorOf(*joint, {1, 1, 1}), "a forward result depends on a tangent, through aten::mul.Tensor");
  joint = read(R"(
graph @main(%x: f32[4], %dy: f32[4]) {
  %d: f32[4], %first: bool[4] = aten::native_dropout(%dy, 0.5, True)
  %y: f32[4], %second: bool[4] = aten::native_dropout(%x, 0.5, True)
  return %y, %d
})");
  EXPECT_EQ(errorOf(*joint, {1, 1, 1}),
            "aten::native_dropout of the forward comes after aten::native_dropout of the backward: they would change "
            "places");
  EXPECT_EQ(errorOf(*joint, {1, 2, 1}), "the joint graph has 2 parameters, not 1 primals and 2 tangents");
  EXPECT_EQ(errorOf(*joint, {1, 1, 3}), "the joint graph returns 2 values, fewer than the 3 forward results");
  EXPECT_EQ(errorOf(*joint, {1, 1, 0}), "");
  EXPECT_EQ(errorOf(*joint, {1, 1, 0}, {.memoryBudget = 1.5}), "the memory budget is 1.500000, not between 0 and 1");
  EXPECT_NE(errorOf(*joint, {1, 1, 0}, {.memoryBudget = -0.1}), "");
  EXPECT_NE(errorOf(*joint, {1, 1, 0}, {.memoryBudget = std::nan("")}), "");
}

}  // namespace
}  // namespace saker::autograd
