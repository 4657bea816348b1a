// Groups and their kernels: run by the interpreter of kernels, against what is computed here.
#include "lower/lower.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verifier.h"
#include "kernel/interpret.h"
#include "kernel/verify.h"
#include "lower/fuse.h"
#include "ops/group.h"
#include "ops/operator.h"

namespace saker::lower {
namespace {

std::unique_ptr<ir::Graph> read(std::string_view text) {
  ir::Parsed parsed = ir::parse(text, std::make_shared<ir::Context>(ops::lookup));
  EXPECT_TRUE(parsed.ok()) << parsed.error->message;
  return std::move(parsed.graph);
}

const ir::Node* onlyGroup(ir::Graph& graph) {
  Fusion fusion = fuse(graph, {.fewestNodes = 1});
  EXPECT_TRUE(ir::verify(graph).empty());
  EXPECT_EQ(fusion.groups.size(), 1u) << ir::print(graph);
  EXPECT_TRUE(fusion.refused.empty());
  return fusion.groups.empty() ? nullptr : fusion.groups[0].node;
}

using Floats = std::vector<float>;

// Of static sizes, f32 everywhere.
std::vector<Floats> run(const ir::Node& group, std::vector<Floats> operands) {
  Lowered lowered = lower(group);
  EXPECT_TRUE(lowered.ok()) << lowered.reason;
  std::vector<Floats> results, temporaries;
  for (size_t i = 0; i < group.resultCount(); ++i) {
    results.emplace_back(ir::numel(group.result(i)->tensor()->sizes()).constant());
  }
  for (const Temporary& temporary : lowered.temporaries) temporaries.emplace_back(temporary.elements.constant());
  for (const Launch& launch : lowered.launches) {
    EXPECT_TRUE(kernel::verify(launch.kernel).empty());
    std::vector<void*> buffers;
    for (const Operand& each : launch.buffers) {
      std::vector<Floats>* from[] = {&operands, &results, &temporaries};
      buffers.push_back((*from[static_cast<size_t>(each.kind)])[each.number].data());
    }
    kernel::interpret(launch.kernel, buffers.data(), nullptr, 0, launch.steps.constant());
  }
  return results;
}

Floats counted(size_t count) {
  Floats numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = std::sin(static_cast<float>(i));
  return numbers;
}

TEST(Lower, PointwiseWithBroadcast) {
  std::unique_ptr<ir::Graph> graph = read(R"(
graph @main(%x: f32[3, 5], %b: f32[5]) {
  %a: f32[3, 5] = aten::add.Tensor(%x, %b)
  %c: f32[3, 5] = aten::mul.Tensor(%a, 2.0)
  return %c
})");
  Floats x = counted(15), b = counted(5);
  std::vector<Floats> found = run(*onlyGroup(*graph), {x, b});
  for (size_t i = 0; i < 15; ++i) EXPECT_EQ(found[0][i], (x[i] + b[i % 5]) * 2);
}

TEST(Lower, SoftmaxOfATransposedProduct) {
  std::unique_ptr<ir::Graph> graph = read(R"(
graph @main(%x: f32[5, 3]) {
  %t: f32[3, 5]{strides: [1, 3]} = aten::t(%x)
  %a: f32[3, 5]{strides: [1, 3]} = aten::mul.Tensor(%t, 3.0)
  %s: f32[3, 5] = aten::_softmax(%a, -1, False)
  return %s
})");
  Floats x = counted(15);
  std::vector<Floats> found = run(*onlyGroup(*graph), {x});
  for (size_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (size_t j = 0; j < 5; ++j) sum += std::exp(3.0 * x[j * 3 + i]);
    for (size_t j = 0; j < 5; ++j) EXPECT_NEAR(found[0][i * 5 + j], std::exp(3.0 * x[j * 3 + i]) / sum, 1e-6);
  }
}

TEST(Lower, RowsThenColumnsNeedMemoryBetween) {
  std::unique_ptr<ir::Graph> graph = read(R"(
graph @main(%x: f32[4, 6]) {
  %s: f32[4, 6] = aten::_softmax(%x, -1, False)
  %c: f32[4, 6] = aten::_softmax(%s, 0, False)
  return %c
})");
  fuse(*graph, {.fewestNodes = 1});
  size_t groups = 0;
  for (ir::Node* node = graph->top()->first(); node; node = node->next()) groups += ops::isGroup(*node);
  EXPECT_EQ(groups, 2u);  // along other dimensions
}

TEST(Lower, ChunksOfOneNumber) {
  std::unique_ptr<ir::Graph> graph = read(R"(
graph @main(%x: f32[100, 1001]) {
  %a: f32[100, 1001] = aten::abs(%x)
  %m: f32[] = aten::amax(%a, [0, 1])
  %s: f32[] = aten::sum(%a)
  %r: f32[] = aten::sub.Tensor(%s, %m)
  return %r
})");
  Floats x = counted(100100);
  const ir::Node* group = onlyGroup(*graph);
  std::vector<Floats> found = run(*group, {x});
  double sum = 0, most = 0;
  for (float each : x) {
    sum += std::fabs(each);
    most = std::max<double>(most, std::fabs(each));
  }
  EXPECT_NEAR(found[0][0], sum - most, 0.1);
  Lowered lowered = lower(*group);
  ASSERT_EQ(lowered.launches.size(), 2u);
  EXPECT_EQ(lowered.launches[0].steps.constant(), 7);
  EXPECT_EQ(lowered.temporaries.size(), 2u);
}

TEST(Lower, SaysWhyNot) {
  std::unique_ptr<ir::Graph> graph = read(R"(
graph @main(%x: f32[4, 4]) {
  %f: f32[4, 4] = saker::fused(%x) {
    (%p: f32[4, 4]) {
      %m: f32[4, 4] = aten::mm(%p, %p)
      return %m
    }
  }
  return %f
})");
  Lowered lowered = lower(*graph->top()->first());
  EXPECT_FALSE(lowered.ok());
  EXPECT_NE(lowered.reason.find("aten::mm"), std::string::npos) << lowered.reason;
}

// A place in a tensor without elements is no place: nothing may be read of it, not even once.
TEST(Fuse, LeavesEmptyTensorsAlone) {
  std::unique_ptr<ir::Graph> graph = read(R"(
graph @main(%x: f32[3, 0]) {
  %v: f32[0, 3] = aten::view(%x, [0, 3])
  %a: f32[0, 3] = aten::exp(%v)
  %s: f32[3] = aten::sum.dim_IntList(%a, [0])
  return %s
})");
  EXPECT_TRUE(fuse(*graph, {.fewestNodes = 1}).groups.empty());
  EXPECT_TRUE(ir::verify(*graph).empty());
}

TEST(Fuse, LeavesNoGuards) {
  std::unique_ptr<ir::Graph> graph = read(R"(
symbol s0 in [2, 64] example 4
symbol s1 in [2, 64] example 6
graph @main(%x: f32[s0, s1], %y: f32[s0, s1]) {
  %v: f32[s0*s1] = aten::view(%x, [s0*s1])
  %a: f32[s0*s1] = aten::exp(%v)
  %w: f32[s0, s1] = aten::view(%a, [s0, s1])
  %b: f32[s0, s1] = aten::add.Tensor(%w, %y)
  %s: f32[s0] = aten::sum.dim_IntList(%b, [1])
  return %s
})");
  Lowered lowered = lower(*onlyGroup(*graph));
  EXPECT_TRUE(lowered.ok()) << lowered.reason;
  EXPECT_TRUE(graph->context().symbols().guards().empty());
  EXPECT_EQ(lowered.launches.size(), 1u);
}

TEST(Fuse, TwiceIsOnce) {
  std::unique_ptr<ir::Graph> graph = read(R"(
graph @main(%x: f32[8, 8]) {
  %a: f32[8, 8] = aten::exp(%x)
  %b: f32[8, 8] = aten::neg(%a)
  %m: f32[8, 8] = aten::mm(%b, %x)
  %c: f32[8, 8] = aten::sin(%a)
  %d: f32[8, 8] = aten::add.Tensor(%m, %c)
  %e: f32[8, 8] = aten::exp(%d)
  return %e
})");
  fuse(*graph);
  std::string once = ir::print(*graph);
  EXPECT_TRUE(fuse(*graph).groups.empty());
  EXPECT_EQ(ir::print(*graph), once);
}

// Long chains become groups of bounded size, in one pass.
TEST(Fuse, LongChains) {
  constexpr size_t kNodes = 5000;
  std::string text = "graph @main(%v0: f32[8]) {\n";
  for (size_t i = 0; i < kNodes; ++i) {
    text += "  %v" + std::to_string(i + 1) + ": f32[8] = aten::sin(%v" + std::to_string(i) + ")\n";
  }
  text += "  return %v" + std::to_string(kNodes) + "\n}\n";
  std::unique_ptr<ir::Graph> graph = read(text);
  Fusion fusion = fuse(*graph);
  EXPECT_TRUE(ir::verify(*graph).empty());
  EXPECT_EQ(fusion.groups.size(), (kNodes + 63) / 64);
  for (const FusedGroup& group : fusion.groups) {
    size_t count = 0;
    for (ir::Node* node = group.node->regions()[0]->first(); !node->isReturn(); node = node->next()) ++count;
    EXPECT_LE(count, 64u);
  }
}

}  // namespace
}  // namespace saker::lower
