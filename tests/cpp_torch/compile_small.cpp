// Calls that are one small operator: saker::compile lets them go on as they are, and says so.
#include <atomic>
#include <thread>

#include "compiled_programs.h"

namespace saker::testing {
namespace {

using One = Tensor (*)(const Tensor&);
const std::vector<std::pair<const char*, One>>& operators() {
  static const std::vector<std::pair<const char*, One>> all = {
      {"sin", [](const Tensor& x) { return x.sin(); }},        {"transposed", [](const Tensor& x) { return x.t(); }},
      {"row", [](const Tensor& x) { return x.select(0, 1); }}, {"written", [](const Tensor& x) { return x.add_(1); }},
      {"sum", [](const Tensor& x) { return x.sum(); }},        {"given back", [](const Tensor& x) { return x; }},
  };
  return all;
}

TEST(CompileSmall, IsEagerMode) {
  for (const auto& [name, function] : operators()) {
    for (bool all : {false, true}) {
      CompileOptions options;
      options.compileSmall = all;
      auto compiled = compile(function, options);
      for (int i = 0; i < 200; ++i) {
        Tensor leaf = torch::randn({3, 2}, torch::requires_grad(i % 3 != 0)), other = leaf.detach().clone();
        other.set_requires_grad(leaf.requires_grad());
        Tensor x = leaf * 1, y = other * 1;
        Tensor found = compiled(x), expected = function(y);
        expectSame(found, expected, name);
        EXPECT_EQ(found.is_same(x), expected.is_same(y)) << name;
        EXPECT_EQ(found.is_view(), expected.is_view()) << name;
        EXPECT_EQ(x._version(), y._version()) << name;
        if (!expected.requires_grad()) continue;
        (found * found).sum().backward();
        (expected * expected).sum().backward();
        expectSame(leaf.grad(), other.grad(), name);
      }
    }
  }
}

TEST(CompileSmall, IsCountedAndTold) {
  auto sine = compile([](const Tensor& x) { return x.sin(); });
  for (int i = 0; i < 500; ++i) sine(torch::ones({4}));
  CompileStats stats = sine.stats();
  EXPECT_EQ(stats.calls, 500U);
  EXPECT_EQ(stats.eagerCalls, 500U);
  EXPECT_EQ(stats.compiledCalls, 0U);
  EXPECT_EQ(stats.captures, 1U);
  EXPECT_NE(sine.report().find("one small operator"), std::string::npos) << sine.report();
}

TEST(CompileSmall, OnlyWhereThereIsNothingToGain) {
  auto two = compile([](const Tensor& x) { return x.sin() + 1; });
  auto large = compile([](const Tensor& x) { return x.sin(); });
  CompileOptions whole;
  whole.fullgraph = true;
  auto asked = compile([](const Tensor& x) { return x.sin(); }, whole);
  for (int i = 0; i < 10; ++i) {
    two(torch::ones({4}));
    large(torch::ones({100, 100}));
    asked(torch::ones({4}));
  }
  EXPECT_EQ(two.stats().compiledCalls, 10U) << two.report();
  EXPECT_EQ(large.stats().compiledCalls, 10U) << large.report();
  EXPECT_EQ(asked.stats().compiledCalls, 10U) << asked.report();
}

// What a function does may depend on the call: large calls are compiled although small ones go on as they are.
TEST(CompileSmall, OtherCallsAreCompiled) {
  auto program = [](const Tensor& x) { return x.size(0) < 10 ? x.sin() : (x.sin() * 2).cos() + x; };
  auto compiled = compile(program);
  for (int i = 0; i < 100; ++i) compiled(torch::ones({4}));
  for (int i = 0; i < 200; ++i) {
    Tensor x = torch::randn({20});
    expectSame(compiled(x), program(x), "large");
  }
  EXPECT_GE(compiled.stats().compiledCalls, 100U) << compiled.report();
  auto calls = compiled.stats().compiledCalls;
  for (int i = 0; i < 100; ++i) {  // by turns
    compiled(torch::ones({4}));
    compiled(torch::ones({20}));
  }
  EXPECT_GE(compiled.stats().compiledCalls - calls, 90U) << compiled.report();
}

TEST(CompileSmall, SeveralThreads) {
  auto sine = compile([](const Tensor& x) { return x.sin(); });
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 300; ++k) {
        Tensor x = torch::full({2 + k % 3}, i + k, torch::kFloat);
        if (!sine(x).equal(x.sin())) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(sine.stats().calls, 1200U);
}

}  // namespace
}  // namespace saker::testing
