#include <gtest/gtest.h>

#include <set>

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verifier.h"
#include "passes/memory.h"
#include "passes/pass.h"
#include "random_graph.h"

namespace saker::passes {
namespace {

std::unique_ptr<ir::Graph> read(std::string_view text) {
  ir::Parsed parsed = ir::parse(text, std::make_shared<ir::Context>(ops::lookup));
  EXPECT_TRUE(parsed.ok()) << parsed.error->message;
  return std::move(parsed.graph);
}

constexpr std::string_view kGraph = R"(
graph @main(%x: f32[4]) {
  %a: f32[4] = aten::exp(%x)
  %b: f32[4] = aten::exp(%x)
  %c: f32[4] = aten::sin(%b)
  return %c
})";

TEST(Passes, TableIsConsistent) {
  std::set<std::string_view> names;
  for (const Pass& pass : all()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    EXPECT_FALSE(pass.description.empty());
    EXPECT_EQ(find(pass.name), &pass);
  }
  EXPECT_EQ(find("nothing"), nullptr);
}

TEST(Passes, RunsInOrderAndMeasures) {
  std::unique_ptr<ir::Graph> graph = read(kGraph);
  std::vector<std::string_view> seen;
  RunOptions options;
  options.verify = true;
  options.after = [&](const Pass& pass, const ir::Graph&) { seen.push_back(pass.name); };
  RunResult result = run(*graph, "cse,dce", options);
  ASSERT_TRUE(result.ok()) << *result.error;
  EXPECT_EQ(seen, (std::vector<std::string_view>{"cse", "dce"}));
  ASSERT_EQ(result.runs.size(), 2u);
  EXPECT_EQ(result.runs[0].nodesBefore, 4u);
  EXPECT_EQ(result.runs[0].nodesAfter, 3u);
  EXPECT_GE(result.runs[0].milliseconds, 0);
  EXPECT_TRUE(run(*graph, "").ok());
}

TEST(Passes, UnknownNamesRunNothing) {
  std::unique_ptr<ir::Graph> graph = read(kGraph);
  RunResult result = run(*graph, "dce,no-such-pass");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(*result.error, "unknown pass 'no-such-pass'");
  EXPECT_EQ(graph->liveNodes(), 4u);
}

TEST(Passes, TheVerifierNamesThePass) {
  std::unique_ptr<ir::Graph> graph = read(kGraph);
  graph->erase(graph->top()->last());
  RunOptions options;
  options.verify = true;
  RunResult result = run(*graph, "dce,cse", options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(*result.error, "after dce: the graph does not end in return");
}

// Whatever the graph, passes leave it valid, or say why not and leave it as it was; running them again changes nothing,
// and a rollback undoes them, as one of the symbols does with what they asked (whether a reshape is a view).
TEST(FuzzPasses, KeepGraphsValid) {
  for (uint64_t seed = 0; seed < 300 * ir::testing::fuzzFactor(); ++seed) {
    std::unique_ptr<ir::Graph> graph = ir::testing::RandomGraph(seed, 5 + seed % 30).make();
    std::string before = ir::print(*graph, {.locations = true});
    auto checkpoint = graph->checkpoint();
    auto known = graph->context().symbols().checkpoint();
    RunOptions options;
    options.verify = true;
    for (const Pass& pass : all()) {
      std::string given = ir::print(*graph, {.locations = true});
      RunResult result = run(*graph, pass.name, options);
      bool mayFail = pass.name.starts_with("functionalize");  // these graphs are not what any program records
      ASSERT_TRUE(result.ok() || mayFail) << "seed " << seed << ": " << *result.error;
      if (!result.ok()) {
        ASSERT_TRUE(result.error->starts_with(std::string(pass.name) + ": "))
            << "seed " << seed << ": " << *result.error;
        ASSERT_EQ(ir::print(*graph, {.locations = true}), given) << "seed " << seed;
        ASSERT_TRUE(ir::verify(*graph).empty());
        continue;
      }
      std::string once = ir::print(*graph, {.locations = true});
      run(*graph, pass.name);
      ASSERT_EQ(ir::print(*graph, {.locations = true}), once) << "seed " << seed << ": " << pass.name;
    }
    graph->rollback(checkpoint);
    graph->context().symbols().rollback(known);
    ASSERT_EQ(ir::print(*graph, {.locations = true}), before) << "seed " << seed;
  }
}

// The strides of the product depend on which of those of %x is larger, which the example tells and no fact.
TEST(FoldConstants, AsksNoExample) {
  std::unique_ptr<ir::Graph> graph = read(R"(
symbol s0 in [2, inf] example 4
symbol s1 in [2, inf] example 5
symbol s2 in [2, inf] example 6
symbol s3 in [2, inf] example 7
graph @main(%x: f32[s0, s1]{strides: [s2, s3]}) {
  %ones: f32[s0, s1] = aten::ones([s0, s1])
  %r: f32[s0, s1]{strides: [1, s0]} = aten::mul.Tensor(%x, %ones)
  return %r
})");
  std::string before = ir::print(*graph, {});
  ASSERT_TRUE(run(*graph, "fold-constants").ok());
  EXPECT_EQ(ir::print(*graph, {}), before);
  EXPECT_TRUE(graph->context().symbols().guards().empty());
  EXPECT_TRUE(graph->context().symbols().facts().assumed().empty());
}

TEST(FoldConstants, IntegersThatADoubleMayNotHoldStay) {
  std::unique_ptr<ir::Graph> graph = read(R"(
graph @main(%x: f64[2]) {
  %a: f64[2] = aten::full([2], -9223372036854775808, dtype=f64)
  %b: f64[2] = aten::mul.Tensor(%x, %a)
  %c: f64[2] = aten::full([2], 9007199254740992, dtype=f64)
  %d: f64[2] = aten::mul.Tensor(%b, %c)
  return %d
})");
  std::string before = ir::print(*graph, {});
  ASSERT_TRUE(run(*graph, "fold-constants").ok());
  EXPECT_EQ(ir::print(*graph, {}), before);
}

TEST(Memory, ClassesWritesAndEscapes) {
  std::unique_ptr<ir::Graph> graph = read(R"(
graph @main(%x: f32[4], %y: f32[4], %n: int) {
  %a: f32[4] = aten::exp(%x)
  %b: f32[4] = aten::sin(%a)
  %w: f32[4] = aten::sin_(%b)
  %u: f32[4] = custom::f(%a, %n)
  %c: f32[4] = aten::exp(%x)
  return %c
})");
  Memory memory(*graph);
  auto parameter = [&](size_t i) { return graph->top()->parameters()[i]; };
  std::vector<const ir::Node*> nodes;
  for (const ir::Node* node = graph->top()->first(); node; node = node->next()) nodes.push_back(node);
  const ir::Value *a = nodes[0]->result(), *b = nodes[1]->result(), *w = nodes[2]->result(), *u = nodes[3]->result(),
                  *c = nodes[4]->result();
  EXPECT_EQ(memory.classOf(parameter(0)), memory.classOf(parameter(1)));  // inputs may overlap
  EXPECT_EQ(memory.classOf(b), memory.classOf(w));
  EXPECT_NE(memory.classOf(a), memory.classOf(b));
  EXPECT_EQ(memory.classOf(a), memory.classOf(u));  // nobody knows custom::f
  EXPECT_EQ(memory.classOf(a), memory.classOf(parameter(0)));
  EXPECT_NE(memory.classOf(parameter(2)), memory.classOf(a));
  EXPECT_TRUE(memory.isWritten(b));
  EXPECT_TRUE(memory.isWritten(a));
  EXPECT_FALSE(memory.isWritten(c));
  EXPECT_TRUE(memory.escapes(c));
  EXPECT_FALSE(memory.escapes(b));
  EXPECT_FALSE(memory.writes(nodes[0]));
  EXPECT_TRUE(memory.writes(nodes[2]));
  EXPECT_TRUE(memory.writes(nodes[3]));
}

}  // namespace
}  // namespace saker::passes
