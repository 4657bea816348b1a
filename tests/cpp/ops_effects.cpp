// What one node writes, whose memory its results lie in, what can be seen of it; and the same of a whole graph.
#include "ops/effects.h"

#include <gtest/gtest.h>

#include "ir/clone.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verifier.h"
#include "passes/memory.h"

namespace saker::ops {
namespace {

std::unique_ptr<ir::Graph> read(std::string_view text) {
  ir::Parsed parsed = ir::parse(text, std::make_shared<ir::Context>(lookup));
  if (!parsed.ok()) {
    ADD_FAILURE() << parsed.error->line << ": " << parsed.error->message;
    return nullptr;
  }
  for (const ir::Diagnostic& found : ir::verify(*parsed.graph)) ADD_FAILURE() << found.message;
  return std::move(parsed.graph);
}

const ir::Node& first(const ir::Graph& graph) { return *graph.top()->first(); }

std::string written(const ir::Node& node) {
  std::string out;
  eachWritten(node, [&](const ir::Value* value) { out += std::string(value->name()) + " "; });
  return out;
}

std::string shared(const ir::Node& node) {
  std::string out;
  eachShared(node, [&](const ir::Value* result, const ir::Value* argument, bool surely) {
    out += std::string(result->name()) + (surely ? "=" : "~") + std::string(argument->name()) + " ";
  });
  return out;
}

TEST(Effects, WhatACallWrites) {
  EXPECT_EQ(written(first(*read("graph @main(%x: f32[4], %y: f32[4]) {\n"
                                "  %r: f32[4] = aten::add.out(%x, %x, out=%y)\n  return\n}"))),
            "y ");
  EXPECT_EQ(written(first(*read("graph @main(%x: f32[4], %y: f32[4]) {\n"
                                "  aten::_foreach_add_.Scalar([%x, %y], 1)\n  return\n}"))),
            "x y ");
  EXPECT_EQ(written(first(*read("graph @main(%x: f32[4]) {\n  %r: f32[4] = aten::exp(%x)\n  return\n}"))), "");
}

// Running statistics are written in training only.
TEST(Effects, ACallThatWritesNothingAlthoughItsOperatorMay) {
  for (bool training : {false, true}) {
    auto graph = read(
        "graph @main(%x: f32[2, 3], %m: f32[3], %v: f32[3]) {\n"
        "  %r: f32[2, 3], %a: f32[3], %b: f32[3] = aten::native_batch_norm(%x, None, None, %m, %v, " +
        std::string(training ? "True" : "False") + ", 0.1, 1e-5)\n  return\n}");
    EXPECT_EQ(written(first(*graph)), training ? "m v " : "");
    EXPECT_EQ(effectsOf(first(*graph)).removable(), !training);
  }
}

TEST(Effects, WhoseMemoryResultsLieIn) {
  EXPECT_EQ(shared(first(*read("graph @main(%x: f32[4]) {\n"
                               "  %a: f32[2], %b: f32[2]{offset: 2} = aten::split.Tensor(%x, 2)\n  return\n}"))),
            "a=x b=x ");
  EXPECT_EQ(shared(first(*read("graph @main(%x: f32[4]) {\n"
                               "  %a: f32[2], %b: f32[2]{offset: 2} = aten::unsafe_split.Tensor(%x, 2)\n"
                               "  return\n}"))),
            "a=x b=x ");
  EXPECT_EQ(shared(first(*read("graph @main(%x: f32[4], %y: f32[4]) {\n"
                               "  %r: f32[4] = aten::add.out(%x, %x, out=%y)\n  return\n}"))),
            "r=y ");
  // What reshape copies is memory of its own.
  EXPECT_EQ(shared(first(*read("graph @main(%x: f32[4, 2]{strides: [1, 4]}) {\n"
                               "  %a: f32[8] = aten::reshape(%x, [8])\n  return\n}"))),
            "");
  EXPECT_EQ(shared(first(*read("graph @main(%x: f32[4, 2]) {\n"
                               "  %a: f32[8] = aten::reshape(%x, [8])\n  return\n}"))),
            "a=x ");
}

TEST(Effects, ABranchDoesWhatItsBodiesDo) {
  auto graph = [](const std::string& body) {
    return read("graph @main(%p: bool, %x: f32[4]) {\n  %r: f32[4] = saker::if(%p) {\n    () {\n      " + body +
                "\n      return %x\n    },\n    () {\n      return %x\n    }\n  }\n  return\n}");
  };
  EXPECT_TRUE(effectsOf(first(*graph("%a: f32[4] = aten::exp(%x)"))).removable());
  Effects draws = effectsOf(first(*graph("%a: f32[4] = aten::bernoulli(%x)")));
  EXPECT_TRUE(draws.has(kRandom) && draws.ordered() && !draws.removable());
  Effects writing = effectsOf(first(*graph("%a: f32[4] = aten::exp_(%x)")));
  EXPECT_TRUE(writing.writes && !writing.ordered() && !writing.removable());
  Effects unknown = effectsOf(first(*graph("%a: f32[4] = custom::f(%x)")));
  EXPECT_TRUE(unknown.unknown && unknown.writes && unknown.ordered());
}

constexpr const char* kBodies = R"(
graph @main(%p: bool, %x: f32[4], %y: f32[4], %n: int) {
  %t: f32[4] = aten::exp(%x)
  %r: f32[4] = saker::if(%p, %t) {
    (%a: f32[4]) {
      return %a
    },
    (%b: f32[4]) {
      %c: f32[4] = aten::sin(%b)
      return %c
    }
  }
  %h: f32[4] = saker::loop(%n, True, %y) {
    (%i: int, %h0: f32[4]) {
      %h1: f32[4] = aten::exp_(%h0)
      return True, %h1
    }
  }
  %u: f32[4] = custom::f(%r)
  return %h
})";

TEST(GraphMemory, ResultsOfBodiesAreWhatBodiesReturn) {
  using passes::Memory;
  using Unknown = Memory::Assumptions::Unknown;
  auto graph = read(kBodies);
  std::span<ir::Value* const> inputs = graph->top()->parameters();
  const ir::Value *x = inputs[1], *y = inputs[2];
  std::vector<const ir::Value*> made;  // t, r, h, u
  for (const ir::Node* node = graph->top()->first(); !node->isReturn(); node = node->next()) {
    made.push_back(node->result());
  }
  Memory apart(*graph, {false, Unknown::Nothing});
  EXPECT_EQ(apart.classOf(made[0]), apart.classOf(made[1]));
  EXPECT_EQ(apart.classOf(y), apart.classOf(made[2]));
  EXPECT_NE(apart.classOf(x), apart.classOf(y));
  EXPECT_NE(apart.classOf(made[1]), apart.classOf(made[3]));
  EXPECT_TRUE(apart.isWritten(y) && apart.escapes(y) && apart.isFromOutside(made[2]));
  EXPECT_FALSE(apart.isWritten(x) || apart.isWritten(made[1]) || apart.isFromOutside(made[1]));
  EXPECT_TRUE(apart.writes(made[2]->def()));
  EXPECT_FALSE(apart.writes(made[1]->def()));

  Memory sharing(*graph, {false, Unknown::ShareOperands});
  EXPECT_EQ(sharing.classOf(made[1]), sharing.classOf(made[3]));
  EXPECT_FALSE(sharing.isWritten(made[1]));

  Memory worst(*graph);
  EXPECT_EQ(worst.classOf(x), worst.classOf(y));
  EXPECT_TRUE(worst.isWritten(made[0]));
}

TEST(Attributes, CopiesKeepThem) {
  auto graph = read(
      "graph @main(%x: f32[4]) {\n  %a: f32[4] = aten::exp(%x) [no_grad, shown, recompute: 9]\n"
      "  %b: f32[4] = custom::f(%a) [inference_toggled, own_version, save: 1] {\n    () {\n"
      "      %c: f32[4] = aten::sin(%x) [redraw: 2]\n      return %c\n    }\n  }\n  return %b\n}\n");
  EXPECT_EQ(ir::print(*ir::clone(*graph)), ir::print(*graph));
}

}  // namespace
}  // namespace saker::ops
