// What the minimum cut saves and computes again; random joint graphs.
#include "autograd/partition.h"

#include <algorithm>

#include "ir/print.h"
#include "ops/builder.h"
#include "partition_check.h"
#include "random_graph.h"

namespace saker::autograd {
namespace {

using ir::Arg;
using ir::Value;
using testing::count;
using testing::cutAndCompare;
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

// A program of operators of all classes with symbolic sizes, then a backward that reads any of it.
class RandomJoint {
 public:
  explicit RandomJoint(uint64_t seed) : random_(seed) {}

  std::unique_ptr<ir::Graph> make(Joint& layout) {
    auto context = std::make_shared<ir::Context>(ops::lookup);
    auto graph = std::make_unique<ir::Graph>(context);
    ir::Int rows = random_.chance(50) ? context->symbols().symbol("s0", sym::Range::size(), 6) : ir::Int(6);
    ir::TensorSpec spec;
    spec.sizes = {rows, rows};
    spec.strides = {rows, 1};
    const ir::Type* type = context->types().tensor(spec);
    layout.primals = 1 + random_.below(3);
    layout.tangents = 1 + random_.below(2);
    std::vector<Value*> primals, tangents, forward;
    for (size_t i = 0; i < layout.primals; ++i) primals.push_back(graph->addParameter(graph->top(), type));
    for (size_t i = 0; i < layout.tangents; ++i) tangents.push_back(graph->addParameter(graph->top(), type));
    forward = primals;
    ops::Builder build(*graph, graph->top(), nullptr);
    for (size_t i = 2 + random_.below(20); i > 0; --i) step(build, forward, forward);
    std::vector<Arg> returned;
    layout.forwardResults = 1 + random_.below(3);
    for (size_t i = 0; i < layout.forwardResults; ++i) returned.push_back(Arg::value(random_.pick(forward)));
    std::vector<Value*> backward = tangents, all = forward;
    all.insert(all.end(), tangents.begin(), tangents.end());
    for (size_t i = 2 + random_.below(20); i > 0; --i) {
      // Some of it needs no tangent.
      if (random_.chance(25)) {
        step(build, forward, all);
      } else {
        step(build, all, backward);
        all.push_back(backward.back());
      }
    }
    if (random_.chance(30)) {
      Value* now =
          random_.pick(std::vector<Value*>(forward.begin(), forward.begin() + 1 + random_.below(forward.size())));
      build.call("aten::copy_", {Arg::value(random_.pick(primals)), Arg::value(now), Arg::boolean(false)});
    } else if (Value* primal = random_.pick(primals); random_.chance(20) && !isReturned(primal, returned)) {
      Arg now = Arg::value(random_.pick(backward));
      build.call("aten::copy_", {Arg::value(primal), now, Arg::boolean(false)});
    }
    for (size_t i = 0; i < layout.primals; ++i) {
      returned.push_back(random_.chance(10) ? Arg::none() : Arg::value(random_.pick(backward)));
    }
    graph->appendReturn(graph->top(), returned);
    return graph;
  }

 private:
  static bool isReturned(const Value* value, const std::vector<Arg>& returned) {
    return std::any_of(returned.begin(), returned.end(), [&](const Arg& arg) { return arg.toValue() == value; });
  }

  void step(ops::Builder& build, const std::vector<Value*>& from, std::vector<Value*>& to) {
    Arg a = Arg::value(random_.pick(from)), b = Arg::value(random_.pick(from));
    switch (random_.below(10)) {
      case 0:
        return to.push_back(build.call("aten::mm", {a, b}));
      case 1:
        return to.push_back(build.call("aten::t", {a}));
      case 2: {
        Arg dims[] = {Arg::integer(1)};
        Value* sum = build.call("aten::sum.dim_IntList", {a, Arg::list(dims), Arg::boolean(true), Arg::none()});
        return to.push_back(build.call("aten::mul.Tensor", {b, Arg::value(sum)}));
      }
      case 3:
        if (random_.chance(30)) {
          Value* dropped = build.call("aten::native_dropout", {a, Arg::number(0.5), Arg::boolean(true)});
          Arg mask = Arg::value(dropped->def()->result(1));
          to.push_back(dropped);
          return to.push_back(build.call("aten::mul.Tensor", {b, mask}));
        }
        return to.push_back(build.call("aten::zeros_like", {a, Arg(), Arg(), Arg(), Arg(), Arg()}));
      case 4:
      case 5:
        return to.push_back(build.call("aten::mul.Tensor", {a, b}));
      default:
        return to.push_back(build.call(random_.chance(50) ? "aten::sin" : "aten::exp", {a}));
    }
  }

  ir::testing::Random random_;
};

TEST(MinCut, RandomJointGraphsMeanTheSame) {
  for (size_t seed = 0; seed < 1500 * ir::testing::fuzzFactor(); ++seed) {
    Joint layout;
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
