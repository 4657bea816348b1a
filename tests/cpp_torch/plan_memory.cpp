// Which values share memory in the workspace of a run.
#include "runtime/plan_memory.h"

#include <gtest/gtest.h>

#include "ir/parse.h"
#include "ops/operator.h"

namespace saker::runtime {
namespace {

// How many buffers a graph takes whose lines are `body`, and whose result is %9, a number.
size_t buffersOf(const std::string& body) {
  std::string text = "graph @main(%0: f32[4, 4], %1: f32[4, 4]) {\n" + body + "  return %9\n}\n";
  ir::Parsed parsed = ir::parse(text, std::make_shared<ir::Context>(ops::lookup));
  EXPECT_TRUE(parsed.ok()) << (parsed.error ? parsed.error->message : "");
  return parsed.ok() ? planMemory(*parsed.graph).workspace.buffers.size() : 0;
}

TEST(PlanMemory, AResultTakesThePlaceOfAnOperandThatEnds) {
  EXPECT_EQ(1u, buffersOf("  %2: f32[4, 4] = aten::mul.Tensor(%0, %1)\n"
                          "  %3: f32[4, 4] = aten::tanh(%2)\n"
                          "  %4: f32[4, 4] = aten::sub.Tensor(%1, %3)\n"
                          "  %9: f32[] = aten::sum(%4)\n"));
}

TEST(PlanMemory, AnOperandThatIsReadAgainStays) {
  EXPECT_EQ(2u, buffersOf("  %2: f32[4, 4] = aten::mul.Tensor(%0, %1)\n"
                          "  %3: f32[4, 4] = aten::tanh(%2)\n"
                          "  %4: f32[4, 4] = aten::sub.Tensor(%2, %3)\n"
                          "  %9: f32[] = aten::sum(%4)\n"));
}

TEST(PlanMemory, AnOperandThatAViewReadsElsewhereStays) {
  EXPECT_EQ(2u, buffersOf("  %2: f32[4, 4] = aten::mul.Tensor(%0, %1)\n"
                          "  %3: f32[4, 4]{strides: [1, 4]} = aten::t(%2)\n"
                          "  %4: f32[4, 4] = aten::add.Tensor(%2, %3)\n"
                          "  %9: f32[] = aten::sum(%4)\n"));
}

TEST(PlanMemory, AnOperatorThatReadsSeveralElementsTakesNoOperandsPlace) {
  EXPECT_EQ(2u, buffersOf("  %2: f32[4, 4] = aten::mul.Tensor(%0, %1)\n"
                          "  %3: f32[4, 4] = aten::mm(%2, %1)\n"
                          "  %9: f32[] = aten::sum(%3)\n"));
}

}  // namespace
}  // namespace saker::runtime
