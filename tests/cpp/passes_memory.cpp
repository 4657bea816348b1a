// Views, operators that may alias, factories and random operators, declared here so that the rules of dce and cse about
// them do not depend on the table.
#include <gtest/gtest.h>

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verifier.h"
#include "ops/operator.h"
#include "passes/inline.h"
#include "passes/pass.h"

namespace saker::passes {
namespace {

struct TestOperator : ops::Operator {
  TestOperator(std::string_view text, uint32_t traits, int8_t alias, ops::Variant variant) {
    parsed = *ir::parseSchema(text);
    schema = &parsed;
    qualified = parsed.qualified();
    registered = true;
    this->traits = traits;
    this->variant = variant;
    for (size_t i = 0; i < parsed.arguments.size(); ++i) {
      if (parsed.arguments[i].writes) writes |= uint64_t{1} << i;
    }
    resultAlias.assign(parsed.returns.size(), alias);
  }
};

const ir::OpDef* lookup(std::string_view name) {
  using ops::Variant;
  static const TestOperator kOperators[] = {
      {"t::view(Tensor(a) self, SymInt[] size) -> Tensor(a)", ops::kNone, 0, Variant::View},
      {"t::reshape(Tensor(a) self, SymInt[] size) -> Tensor(a)", ops::kMayAlias, 0, Variant::View},
      {"t::chunk(Tensor(a -> *) self) -> Tensor(a)[]", ops::kNone, 0, Variant::View},
      {"t::wild(Tensor self) -> Tensor(*)", ops::kNone, -1, Variant::Functional},
      {"t::zeros(SymInt[] size) -> Tensor", ops::kNone, -1, Variant::Functional},
      {"t::exp(Tensor self) -> Tensor", ops::kNone, -1, Variant::Functional},
      {"t::exp_(Tensor(a!) self) -> Tensor(a!)", ops::kNone, 0, Variant::Inplace},
      {"t::rand(SymInt[] size) -> Tensor", ops::kRandom, -1, Variant::Functional},
      {"t::clock() -> Tensor", ops::kReadsState, -1, Variant::Functional},
      {"t::atomic(Tensor self) -> Tensor", ops::kNondeterministic, -1, Variant::Functional},
      {"t::log(Tensor self) -> Tensor", ops::kEffect, -1, Variant::Functional},
      {"t::item(Tensor self) -> Scalar", ops::kDataDependent, -1, Variant::Functional},
      {"t::length(Tensor self) -> int", ops::kNone, -1, Variant::Functional},
  };
  for (const TestOperator& op : kOperators) {
    if (op.qualified == name) return &op;
  }
  return nullptr;
}

std::unique_ptr<ir::Graph> read(const std::string& text) {
  ir::Parsed parsed = ir::parse(text, std::make_shared<ir::Context>(lookup));
  if (!parsed.ok()) {
    ADD_FAILURE() << parsed.error->line << ": " << parsed.error->message;
    return nullptr;
  }
  std::vector<ir::Diagnostic> found = ir::verify(*parsed.graph);
  EXPECT_TRUE(found.empty()) << found[0].message;
  return std::move(parsed.graph);
}

// How many nodes a pass takes away.
size_t removed(std::string_view passes, std::string_view statements) {
  std::unique_ptr<ir::Graph> graph = read("graph @main(%x: f32[4], %y: f32[4]) {" + std::string(statements) + "\n}");
  if (!graph) return SIZE_MAX;
  size_t before = graph->liveNodes();
  RunOptions options;
  options.verify = true;
  RunResult result = run(*graph, passes, options);
  EXPECT_TRUE(result.ok()) << *result.error;
  return before - graph->liveNodes();
}

TEST(Dce, AsksTheOperator) {
  EXPECT_EQ(removed("dce", "%0: f32[4] = t::view(%x, [4]) %1: f32[4] = t::zeros([4]) return"), 2u);
  EXPECT_EQ(removed("dce", "%0: f32[4] = t::rand([4]) return"), 0u);
  EXPECT_EQ(removed("dce", "%0: f32[4] = t::log(%x) return"), 0u);
  EXPECT_EQ(removed("dce", "%0: scalar = t::item(%x) return"), 0u);
  EXPECT_EQ(removed("dce", "%0: f32[4] = t::exp_(%x) return"), 0u);
  EXPECT_EQ(removed("dce", "%0: f32[4] = t::atomic(%x) %1: f32[4] = t::clock() return"), 2u);
}

TEST(Cse, AsksTheOperator) {
  EXPECT_EQ(removed("cse", "%0: f32[4] = t::rand([4]) %1: f32[4] = t::rand([4]) return"), 0u);
  EXPECT_EQ(removed("cse", "%0: f32[4] = t::clock() %1: f32[4] = t::clock() return"), 0u);
  EXPECT_EQ(removed("cse", "%0: f32[4] = t::atomic(%x) %1: f32[4] = t::atomic(%x) return"), 0u);
  EXPECT_EQ(removed("cse", "%0: f32[4] = t::log(%x) %1: f32[4] = t::log(%x) return"), 0u);
  EXPECT_EQ(removed("cse", "%0: int = t::length(%x) %1: int = t::length(%x) return %0, %1"), 1u);
}

TEST(Cse, FreshTensorsThatAreWrittenAreTwo) {
  EXPECT_EQ(removed("cse", "%0: f32[4] = t::zeros([4]) %1: f32[4] = t::zeros([4]) %2: f32[4] = t::exp(%1) return %2"),
            1u);
  EXPECT_EQ(removed("cse", "%0: f32[4] = t::zeros([4]) %1: f32[4] = t::zeros([4]) %2: f32[4] = t::exp_(%1) return %0"),
            0u);
  // Written through a view of a view.
  EXPECT_EQ(removed("cse",
                    "%0: f32[4] = t::zeros([4]) %1: f32[4] = t::zeros([4]) %2: f32[4] = t::view(%0, [4])"
                    "%3: f32[4] = t::reshape(%2, [4]) %4: f32[4] = t::exp_(%3) return"),
            0u);
  // Written in a list of views.
  EXPECT_EQ(removed("cse",
                    "%0: f32[4] = t::zeros([4]) %1: f32[4] = t::zeros([4]) %2: f32[2], %3: f32[2] = t::chunk(%0)"
                    "%4: f32[2] = t::exp_(%3) return"),
            0u);
  // Given to somebody who may keep it.
  EXPECT_EQ(removed("cse", "%0: f32[4] = t::zeros([4]) %1: f32[4] = t::zeros([4]) custom::keep(%1) return"), 0u);
}

TEST(Cse, ResultsOfTheGraphAreTwo) {
  EXPECT_EQ(removed("cse", "%0: f32[4] = t::exp(%x) %1: f32[4] = t::exp(%x) return %0, %1"), 0u);
  EXPECT_EQ(removed("cse", "%0: f32[4] = t::exp(%x) %1: f32[4] = t::exp(%x) return [%0], %1"), 0u);
  // Through views: the memory leaves the graph.
  EXPECT_EQ(removed("cse",
                    "%0: f32[4] = t::exp(%x) %1: f32[4] = t::exp(%x)"
                    "%2: f32[2, 2] = t::view(%0, [2, 2]) %3: f32[4, 1] = t::view(%1, [4, 1]) return %2, %3"),
            0u);
  EXPECT_EQ(removed("cse", "%0: f32[4] = t::exp(%x) %1: f32[4] = t::exp(%x) return %1"), 1u);
  // Of three equal ones, two leave.
  EXPECT_EQ(removed("cse", "%0: f32[4] = t::exp(%x) %1: f32[4] = t::exp(%x) %2: f32[4] = t::exp(%x) return %1, %2"),
            1u);
}

TEST(Cse, Views) {
  // One window twice; memory that leaves the graph does not matter, both being handed out does.
  EXPECT_EQ(removed("cse",
                    "%0: f32[2, 2] = t::view(%x, [2, 2]) %1: f32[2, 2] = t::view(%x, [2, 2])"
                    "%2: f32[2, 2] = t::exp(%1) return %0, %2"),
            1u);
  EXPECT_EQ(removed("cse", "%0: f32[2, 2] = t::view(%x, [2, 2]) %1: f32[2, 2] = t::view(%x, [2, 2]) return %0, %1"),
            0u);
  EXPECT_EQ(removed("cse",
                    "%0: f32[2, 2] = t::view(%x, [2, 2]) %1: f32[2, 2] = t::view(%x, [2, 2])"
                    "%2: f32[2, 2] = t::exp_(%1) return"),
            0u);
  // A copy or a view: two copies are two tensors as soon as the memory may leave.
  EXPECT_EQ(removed("cse",
                    "%0: f32[2, 2] = t::reshape(%x, [2, 2]) %1: f32[2, 2] = t::reshape(%x, [2, 2])"
                    "%2: f32[4] = t::view(%0, [4]) %3: f32[4] = t::view(%1, [4]) return %2, %3"),
            0u);
  EXPECT_EQ(removed("cse",
                    "%0: f32[2, 2] = t::reshape(%x, [2, 2]) %1: f32[2, 2] = t::reshape(%x, [2, 2])"
                    "%2: f32[4] = t::exp(%0) %3: f32[4] = t::exp(%1) return %2"),
            2u);
  // A wildcard may be any memory: here the input that is written.
  EXPECT_EQ(removed("cse",
                    "%0: f32[4] = t::wild(%x) %1: f32[4] = t::exp(%0) %2: f32[4] = t::exp_(%x)"
                    "%3: f32[4] = t::exp(%0) return %1"),
            0u);
}

TEST(Cse, ReadsAroundWrites) {
  // Of memory of its own, other writes do not matter.
  EXPECT_EQ(removed("cse",
                    "%0: f32[4] = t::zeros([4]) %1: f32[4] = t::exp(%0) %2: f32[4] = t::exp_(%x)"
                    "%3: f32[4] = t::exp(%0) return"),
            1u);
  EXPECT_EQ(removed("cse",
                    "%0: f32[4] = t::zeros([4]) %1: f32[4] = t::exp(%0) %2: f32[4] = t::exp_(%0)"
                    "%3: f32[4] = t::exp(%0) return"),
            0u);
}

TEST(Inline, PutsTheBodyInPlaceOfTheNode) {
  std::unique_ptr<ir::Graph> graph = read(R"(
graph @main(%x: f32[4]) {
  %0: f32[4], %1: int = custom::call(%x) {
    (%a: f32[4], %n: int) {
      %b: f32[4] = t::exp(%a)
      %c: f32[4] = t::view(%b, [%n, 1]) 
      custom::use([%n, [%n]]) {
        () {
          return %n
        }
      }
      return %c, %n
    },
    () {
      return
    }
  }
  %2: f32[4] = t::view(%0, [%1])
  return %2, %0, %1
})");
  auto checkpoint = graph->checkpoint();
  std::string before = ir::print(*graph);
  ir::Node* call = graph->top()->first();
  ir::Arg arguments[] = {ir::Arg::value(graph->top()->parameters()[0]), ir::Arg::integer(4)};
  inlineRegion(*graph, call, call->regions()[0], arguments);
  EXPECT_TRUE(ir::verify(*graph).empty());
  EXPECT_EQ(ir::print(*graph), R"(graph @main(%x: f32[4]) {
  %b: f32[4] = t::exp(%x)
  %c: f32[4] = t::view(%b, [4, 1])
  custom::use([4, [4]]) {
    () {
      return 4
    }
  }
  %0: f32[4] = t::view(%c, [4])
  return %0, %c, 4
}
)");
  graph->rollback(checkpoint);
  EXPECT_EQ(ir::print(*graph), before);
}

}  // namespace
}  // namespace saker::passes
