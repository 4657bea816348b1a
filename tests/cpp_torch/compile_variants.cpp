// When saker::compile compiles again.
#include <ATen/autocast_mode.h>

#include "compiled_programs.h"

namespace saker::testing {
namespace {

TEST(CompileVariants, SecondSizeMakesSizesSymbolic) {
  auto compiled = compileAll(scaled);
  for (int64_t size : {4, 7, 9, 100, 7, 4}) {
    expectLike(compiled, scaled, torch::randn({size, 3}, torch::requires_grad()));
  }
  CompileStats stats = compiled.stats();
  EXPECT_EQ(stats.compiledCalls, 6U);
  EXPECT_EQ(stats.variants, 2U);  // one for 4, one for any
  EXPECT_NE(compiled.report().find("Float[*, 3]"), std::string::npos) << compiled.report();
}

// The variant that ran last is tried first, whatever the call is.
TEST(CompileVariants, CallsByTurns) {
  auto row = [](const Tensor& x) {
    Tensor one = x.reshape(-1)[1];  // in this order: docs/compile.md tells how versions of gradients may differ
    return x.sin() * 2 + one;
  };
  auto compiled = compileAll(row, {.sizes = CompileOptions::Sizes::Fixed});
  std::vector<Tensor> all = {
      torch::randn({4}),        torch::randn({4}).to(at::kDouble),        torch::randn({2, 2}),
      torch::randn({2, 2}).t(), torch::randn({8}).slice(0, 1, 5),         torch::randn({8}).slice(0, 0, 8, 2),
      torch::randn({5}),        torch::randn({4}, torch::requires_grad())};
  for (int round = 0; round < 3; ++round) {
    for (const Tensor& x : all) {
      for (int again = 0; again <= round; ++again) expectLike(compiled, row, x);
    }
    torch::NoGradGuard off;
    for (const Tensor& x : all) expectSame(compiled(x), row(x), "result");
  }
  EXPECT_EQ(compiled.stats().eagerCalls, 0U) << compiled.report();
}

TEST(CompileVariants, ClosedOverTensorsAreLookedUp) {
  Tensor kept = torch::ones({3});
  auto add = [&](const Tensor& x) { return x.sin() + kept; };
  auto compiled = compileAll(add);
  Tensor x = torch::randn({3});
  for (int i = 0; i < 4; ++i) {
    expectSame(compiled(x), add(x), "result");
    kept.mul_(2);
  }
  kept = torch::full({3}, 5.0);
  expectSame(compiled(x), add(x), "another tensor");
  kept = torch::full({1}, 5.0);
  expectSame(compiled(x), add(x), "another size");
  kept.resize_({3}).fill_(1);
  expectSame(compiled(x), add(x), "resized");
}

TEST(CompileVariants, SizesOfZeroAndOneAreTheirOwn) {
  auto compiled = compileAll(scaled);
  for (int64_t size : {4, 7, 1, 0, 5, 1, 0}) {
    expectLike(compiled, scaled, torch::randn({size, 3}, torch::requires_grad()));
  }
  EXPECT_EQ(compiled.stats().compiledCalls, 7U);
  EXPECT_EQ(compiled.stats().variants, 4U);
}

TEST(CompileVariants, SeveralSizesChange) {
  auto both = [](const Tensor& a, const Tensor& b) { return torch::mm(a, b); };
  auto compiled = compileAll(both);
  for (int64_t size : {3, 5, 6, 8}) {
    Tensor a = torch::randn({size, 4}), b = torch::randn({4, size + 1});
    expectSame(compiled(a, b), both(a, b), "result");
  }
  for (int64_t inner : {5, 6, 7}) {
    Tensor a = torch::randn({9, inner}), b = torch::randn({inner, 2});
    expectSame(compiled(a, b), both(a, b), "result");
  }
  EXPECT_EQ(compiled.stats().compiledCalls, 7U);
  EXPECT_EQ(compiled.stats().variants, 3U);
}

// A number that C++ code takes from a size is that number: a guard, and another variant for another size.
TEST(CompileVariants, NumbersTakenFromSizesAreGuarded) {
  auto average = [](const Tensor& x) { return x.sum(0) / x.size(0); };
  auto compiled = compileAll(average);
  for (int64_t size : {4, 5, 6, 7, 8, 9, 4, 9}) {
    expectLike(compiled, average, torch::randn({size, 3}, torch::requires_grad()));
  }
  EXPECT_EQ(compiled.stats().eagerCalls, 0U);
}

// So are all other ways in which C++ code asks for sizes.
TEST(CompileVariants, QuestionsAboutSizes) {
  auto program = [](const Tensor& x) {
    std::vector<int64_t> sizes = x.sizes().vec();
    Tensor flat = x.view({x.numel()}) * static_cast<double>(x.strides()[0] + x.dim());
    return flat.view(sizes).expand({2, sizes[0], sizes[1]}).contiguous();
  };
  auto compiled = compileAll(program);
  for (int64_t size : {4, 5, 6, 7, 8, 5}) {
    expectLike(compiled, program, torch::randn({size, 3}, torch::requires_grad()));
  }
  EXPECT_EQ(compiled.stats().eagerCalls, 0U) << compiled.report();
}

TEST(CompileVariants, BranchesOnSizesAreGuarded) {
  auto branches = [](const Tensor& x) { return x.sym_size(0) > 8 ? x * 2 : x * 3; };
  auto compiled = compileAll(branches);
  for (int64_t size : {4, 5, 20, 30, 6, 25}) {
    expectLike(compiled, branches, torch::randn({size, 3}, torch::requires_grad()));
  }
  EXPECT_EQ(compiled.stats().eagerCalls, 0U);
  EXPECT_EQ(compiled.stats().variants, 3U);  // 4; up to 8; more
}

TEST(CompileVariants, FixedAndSymbolicSizes) {
  CompileOptions fixed, symbolic;
  fixed.sizes = CompileOptions::Sizes::Fixed;
  symbolic.sizes = CompileOptions::Sizes::Symbolic;
  auto one = compileAll(scaled, fixed), any = compileAll(scaled, symbolic);
  for (int64_t size : {4, 5, 6}) {
    expectLike(one, scaled, torch::randn({size, size + 1}, torch::requires_grad()));
    expectLike(any, scaled, torch::randn({size, size + 1}, torch::requires_grad()));
  }
  EXPECT_EQ(one.stats().variants, 3U);
  EXPECT_EQ(any.stats().variants, 1U);
}

TEST(CompileVariants, DtypeStridesAndRequiresGrad) {
  auto compiled = compileAll(scaled);
  Tensor x = torch::randn({4, 4});
  for (int i = 0; i < 2; ++i) {
    expectLike(compiled, scaled, x);
    expectLike(compiled, scaled, x.to(torch::kDouble));
    expectLike(compiled, scaled, x.t());
    expectLike(compiled, scaled, x.clone().set_requires_grad(true));
    expectLike(compiled, scaled, x.unsqueeze(0));
    EXPECT_EQ(compiled.stats().variants, 5U) << compiled.report();
  }
  EXPECT_EQ(compiled.stats().compiledCalls, 10U);
}

TEST(CompileVariants, StateOfTheThread) {
  auto program = [](const Tensor& x) { return torch::mm(x, x); };
  auto compiled = compileAll(program);
  Tensor x = torch::randn({4, 4}, torch::requires_grad());
  for (int i = 0; i < 2; ++i) {
    expectLike(compiled, program, x);
    {
      torch::NoGradGuard off;
      expectSame(compiled(x), program(x), "without autograd");
    }
    {
      c10::InferenceMode on;
      expectSame(compiled(x), program(x), "in inference mode");
    }
    at::autocast::set_autocast_enabled(at::kCPU, true);
    Tensor found = compiled(x), expected = program(x);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    expectSame(found, expected, "under autocast");
    EXPECT_EQ(found.scalar_type(), torch::kBFloat16);
  }
  EXPECT_EQ(compiled.stats().variants, 4U);
  EXPECT_EQ(compiled.stats().compiledCalls, 8U);
}

TEST(CompileVariants, InputsThatShareMemory) {
  auto program = [](const Tensor& a, const Tensor& b) {
    a.add_(1);
    return a * b;
  };
  auto compiled = compileAll(program);
  for (int i = 0; i < 2; ++i) {
    Tensor memory = torch::arange(8.0), same = torch::arange(8.0);
    expectSame(compiled(memory.slice(0, 0, 4), memory.slice(0, 2, 6)),
               program(same.slice(0, 0, 4), same.slice(0, 2, 6)), "overlapping");
    expectSame(memory, same, "memory");
    expectSame(compiled(memory, memory), program(same, same), "the same");
    expectSame(memory, same, "memory");
    expectSame(compiled(memory, torch::ones({8})), program(same, torch::ones({8})), "apart");
    expectSame(memory, same, "memory");
  }
}

TEST(CompileVariants, OffsetsMatterWhereTheyAreRead) {
  auto program = [](const Tensor& x) { return x.as_strided({2}, {1}, 1) * 2; };
  auto compiled = compileAll(program);
  Tensor memory = torch::arange(8.0);
  for (int64_t start : {0, 3, 0, 4}) {
    Tensor part = memory.slice(0, start, start + 3);
    expectSame(compiled(part), program(part), "result");
  }
}

}  // namespace
}  // namespace saker::testing
