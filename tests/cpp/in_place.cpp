// Which operands of a group give their memory to a result.
#include "lower/in_place.h"

#include <gtest/gtest.h>

#include "ir/parse.h"
#include "ir/print.h"
#include "lower/fuse.h"
#include "ops/operator.h"

namespace saker::lower {
namespace {

// Of the one group of a graph: pairs of a result and an operand.
std::vector<InPlace> pairsOf(std::string_view text) {
  ir::Parsed parsed = ir::parse(text, std::make_shared<ir::Context>(ops::lookup));
  EXPECT_TRUE(parsed.ok()) << (parsed.error ? parsed.error->message : "");
  Fusion fusion = fuse(*parsed.graph, {.fewestNodes = 1});
  EXPECT_EQ(fusion.groups.size(), 1u) << ir::print(*parsed.graph);
  if (fusion.groups.empty()) return {};
  const ir::Node& group = *fusion.groups[0].node;
  Lowered lowered = lower(group);
  EXPECT_TRUE(lowered.ok()) << lowered.reason;
  return inPlace(group, lowered);
}

using Pairs = std::vector<InPlace>;

TEST(InPlace, AnElementTakesThePlaceOfTheOneItIsMadeOf) {
  EXPECT_EQ((Pairs{{0, 0}, {0, 1}}), pairsOf(R"(
graph @main(%x: f32[4, 6], %y: f32[4, 6]) {
  %a: f32[4, 6] = aten::mul.Tensor(%x, %y)
  %b: f32[4, 6] = aten::tanh(%a)
  return %b
})"));
}

TEST(InPlace, ARowIsReadToItsEndBeforeItIsWritten) {
  EXPECT_EQ((Pairs{{0, 0}}), pairsOf(R"(
graph @main(%x: f32[4, 6]) {
  %a: f32[4, 6] = aten::mul.Tensor(%x, %x)
  %s: f32[4, 1] = aten::sum.dim_IntList(%a, [1], True)
  %b: f32[4, 6] = aten::div.Tensor(%x, %s)
  return %b
})"));
}

TEST(InPlace, NotWhatIsReadByOtherSteps) {
  EXPECT_EQ((Pairs{{0, 1}}), pairsOf(R"(
graph @main(%x: f32[6, 6], %y: f32[6, 6]) {
  %t: f32[6, 6]{strides: [1, 6]} = aten::t(%x)
  %a: f32[6, 6] = aten::add.Tensor(%t, %y)
  %b: f32[6, 6] = aten::neg(%a)
  return %b
})")) << "x is read at another place";
  EXPECT_EQ((Pairs{}), pairsOf(R"(
graph @main(%x: f32[6], %y: f32[4, 6]) {
  %a: f32[4, 6] = aten::add.Tensor(%x, %y)
  %s: f32[6] = aten::sum.dim_IntList(%a, [0])
  return %s
})")) << "a sum has fewer elements than steps";
}

TEST(InPlace, NotWhatIsReadAgainAfterwards) {
  // The sum over columns is another kernel, which reads x too.
  Pairs pairs = pairsOf(R"(
graph @main(%x: f32[4, 6]) {
  %a: f32[4, 6] = aten::exp(%x)
  %s: f32[6] = aten::sum.dim_IntList(%x, [0])
  %b: f32[6] = aten::neg(%s)
  return %a, %b
})");
  for (const InPlace& pair : pairs) EXPECT_NE(pair.result, 1u);
}

TEST(InPlace, NotOfAnotherType) {
  EXPECT_EQ((Pairs{}), pairsOf(R"(
graph @main(%x: f32[4, 6]) {
  %a: f32[4, 6] = aten::exp(%x)
  %b: bool[4, 6] = aten::gt.Scalar(%a, 1)
  return %b
})"));
}

TEST(InPlace, NotWhereOperatorsMayBeCalledInstead) {
  EXPECT_EQ((Pairs{}), pairsOf(R"(
graph @main(%x: i64[6], %y: i64[6]) {
  %a: i64[6] = aten::add.Tensor(%x, %y)
  %b: i64[6] = aten::remainder.Tensor(%a, %y)
  return %b
})"));
}

}  // namespace
}  // namespace saker::lower
