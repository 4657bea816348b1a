// Which values share memory in the workspace of a run.
#include "runtime/plan_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/parse.h"
#include "ops/operator.h"
#include "runtime/sizes.h"

namespace saker::runtime {
namespace {

// How many buffers a graph takes whose lines are `body`, and whose result is %9, a number.
using Pairs = std::vector<lower::InPlace>;
size_t buffersOf(const std::string& body, const Pairs& pairs = {}) {
  std::string text = "graph @main(%0: f32[4, 4], %1: f32[4, 4]) {\n" + body + "  return %9\n}\n";
  ir::Parsed parsed = ir::parse(text, std::make_shared<ir::Context>(ops::lookup));
  EXPECT_TRUE(parsed.ok()) << (parsed.error ? parsed.error->message : "");
  return parsed.ok() ? planMemory(*parsed.graph, [&](const ir::Node&) { return pairs; }).workspace.buffers.size() : 0;
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

// What a group makes of the product %2, which ends there, and that is multiplied again.
std::string grouped(const std::string& operands, const std::string& parameters, const std::string& after) {
  return "  %2: f32[4, 4] = aten::mm(%0, %1)\n  %3: f32[4, 4] = saker::fused(" + operands + ") {\n    (" + parameters +
         ") {\n      %5: f32[4, 4] = aten::tanh(%4)\n      return %5\n    }\n  }\n" + after +
         "  %9: f32[] = aten::sum(%6)\n";
}
const std::string kProduct = "  %6: f32[4, 4] = aten::mm(%3, %1)\n";

TEST(PlanMemory, AGroupTakesThePlaceOfAnOperandThatItsKernelsAreDoneWith) {
  std::string body = grouped("%2", "%4: f32[4, 4]", kProduct);
  EXPECT_EQ(3u, buffersOf(body));
  EXPECT_EQ(2u, buffersOf(body, {{0, 0}}));
}

TEST(PlanMemory, AGroupLeavesWhatIsReadLaterAndWhatIsFromOutside) {
  EXPECT_EQ(3u, buffersOf(grouped("%2", "%4: f32[4, 4]", "  %6: f32[4, 4] = aten::mm(%3, %2)\n"), {{0, 0}}));
  std::string view = "  %7: f32[4, 4]{strides: [1, 4]} = aten::t(%2)\n  %6: f32[4, 4] = aten::mm(%3, %7)\n";
  EXPECT_EQ(3u, buffersOf(grouped("%2", "%4: f32[4, 4]", view), {{0, 0}}));
  std::string input = grouped("%0", "%4: f32[4, 4]", "  %6: f32[4, 4] = aten::mm(%3, %2)\n");
  EXPECT_EQ(3u, buffersOf(input, {{0, 0}})) << "%0 is the caller's";
}

TEST(PlanMemory, AGroupLeavesMemoryThatAnotherOperandSees) {
  std::string text =
      "  %2: f32[4, 4] = aten::mm(%0, %1)\n  %7: f32[4, 4]{strides: [1, 4]} = aten::t(%2)\n"
      "  %3: f32[4, 4] = saker::fused(%2, %7) {\n    (%4: f32[4, 4], %8: f32[4, 4]{strides: [1, 4]}) {\n"
      "      %5: f32[4, 4] = aten::mul.Tensor(%4, %8)\n      return %5\n    }\n  }\n" +
      kProduct + "  %9: f32[] = aten::sum(%6)\n";
  EXPECT_EQ(3u, buffersOf(text, {{0, 0}}));
}

// One group for each of `operands`, and what of these the first two results take the place of.
std::vector<uint32_t> taken(const std::vector<std::string>& operands, const std::vector<bool>& ending, bool together) {
  std::string text = "graph @main(%0: f32[4, 4], %1: f32[4, 4]) {\n  %2: f32[4, 4] = aten::mm(%0, %1)\n", returned;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string k = std::to_string(i);
    text += "  %r" + k + ": f32[4, 4] = saker::fused(" + operands[i] + ") {\n    (%p" + k + ": f32[4, 4]) {\n      %b" +
            k + ": f32[4, 4] = aten::tanh(%p" + k + ")\n      return %b" + k + "\n    }\n  }\n";
    returned += (i ? ", %r" : "%r") + k;
  }
  ir::Parsed parsed = ir::parse(text + "  return " + returned + "\n}\n", std::make_shared<ir::Context>(ops::lookup));
  EXPECT_TRUE(parsed.ok()) << (parsed.error ? parsed.error->message : "");
  if (!parsed.ok()) return {};
  std::vector<Together> side = findTogether(*parsed.graph, [&](const ir::Node&) { return GroupFacts{together, {}}; });
  EXPECT_EQ(together && operands.size() > 1 ? 1u : 0u, side.size());
  MemoryPlan plan = planMemory(*parsed.graph, [](const ir::Node&) { return Pairs{{0, 0}}; }, ending, side);
  std::vector<uint32_t> found;
  for (const ir::Node* node = parsed.graph->top()->first(); node; node = node->next()) {
    if (plan.fused.count(node)) found.push_back(plan.fused.at(node).overwrites[0]);
  }
  return found;
}

TEST(PlanMemory, AGroupTakesThePlaceOfAnInputThatEnds) {
  using Found = std::vector<uint32_t>;
  EXPECT_EQ((Found{0}), taken({"%1"}, {false, true}, false));
  EXPECT_EQ((Found{kNone}), taken({"%1"}, {true, false}, false));
  EXPECT_EQ((Found{kNone}), taken({"%1"}, {}, false));
  EXPECT_EQ((Found{kNone, 0}), taken({"%1", "%1"}, {false, true}, false)) << "it is read again";
}

TEST(PlanMemory, GroupsThatRunTogetherLeaveWhatOthersOfThemRead) {
  using Found = std::vector<uint32_t>;
  EXPECT_EQ((Found{kNone, kNone}), taken({"%1", "%1"}, {false, true}, true));
  EXPECT_EQ((Found{kNone, 0}), taken({"%1", "%1"}, {false, true}, false)) << "one after the other";
}

}  // namespace
}  // namespace saker::runtime
