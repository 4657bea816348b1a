// How a function that saker::compile has compiled is called: arguments, results, copies, recursion, threads.
#include <atomic>
#include <thread>

#include "compiled_programs.h"

namespace saker::testing {
namespace {

TEST(CompileCalls, ResultsAsTheFunctionGivesThem) {
  Tensor x = torch::randn({3});
  auto pair = compileAll([](const Tensor& a) { return std::make_pair(a.sin(), a.cos()); });
  auto tuple = compileAll([](const Tensor& a, const Tensor& b) { return std::make_tuple(a + b, a - b, a * b); });
  auto list = compileAll([](const Tensor& a) { return a.split(1); });
  expectSame(pair(x).second, x.cos(), "second");
  auto [sum, difference, product] = tuple(x, x);
  expectSame(difference, x - x, "difference");
  expectSame(list(x), x.split(1), "list");
  auto nothing = compileAll([] { return torch::ones({2}); });
  expectSame(nothing(), torch::ones({2}), "no inputs");
}

TEST(CompileCalls, UndefinedInputs) {
  auto program = [](const Tensor& x, const Tensor& bias) { return bias.defined() ? x + bias : x * 2; };
  auto compiled = compileAll(program);
  Tensor x = torch::randn({3}), bias = torch::randn({3});
  for (int i = 0; i < 2; ++i) {
    expectSame(compiled(x, Tensor()), program(x, Tensor()), "without");
    expectSame(compiled(x, bias), program(x, bias), "with");
  }
}

TEST(CompileCalls, OtherNumbersOfInputs) {
  Compiled sum = compileAll([](const Tensors& in) {
    Tensor out = torch::zeros({2});
    for (const Tensor& each : in) out = out + each;
    return Tensors{out};
  });
  for (size_t count : {2, 0, 3, 2}) {
    EXPECT_TRUE(sum(Tensors(count, torch::ones({2})))[0].equal(torch::full({2}, static_cast<double>(count))));
  }
  EXPECT_EQ(sum.stats().compiledCalls, 4U) << sum.report();
}

TEST(CompileCalls, CopiesAreTheSameFunction) {
  auto compiled = compileAll(scaled);
  auto copy = compiled;
  copy(torch::ones({2, 3}));
  compiled(torch::ones({2, 3}));
  EXPECT_EQ(compiled.stats().calls, 2U);
  EXPECT_EQ(copy.stats().captures, 1U);
}

TEST(CompileCalls, Recursion) {
  std::function<Tensors(const Tensors&)> call;
  Compiled compiled = compileAll([&](const Tensors& in) {
    if (in[0].size(0) == 1) return Tensors{in[0] * 2};
    return Tensors{in[0].sum() + call({in[0].slice(0, 1)})[0].sum()};
  });
  call = [&](const Tensors& in) { return compiled(in); };
  expectSame(compiled({torch::ones({3})})[0], torch::tensor(7.0F), "result");
}

TEST(CompileCalls, SeveralThreads) {
  Tensor weight = torch::randn({6, 6}, torch::requires_grad());
  auto program = [&](const Tensor& x) { return torch::tanh(torch::mm(x, weight)); };
  // One is compiled before the threads begin. Of the other, calls run eagerly while one of them compiles it.
  auto compiled = compileAll(program), racing = compileAll(program);
  for (int rows : {2, 3, 4}) compiled(torch::randn({rows, 6}, torch::requires_grad()));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  // Drawn before: numbers that another thread draws while a function is compiled are taken for its own (docs/cpp.md).
  std::vector<std::vector<Tensor>> inputs(4);
  for (int i = 0; i < 240; ++i) {
    inputs[i % 4].push_back(torch::randn({2 + (i / 4 + i % 4) % 5, 6}, torch::requires_grad()));
  }
  for (const std::vector<Tensor>& given : inputs) {
    threads.emplace_back([&] {
      for (const Tensor& x : given) {
        Tensor expected = program(x), b = torch::autograd::grad({expected.sum()}, {x})[0];
        for (const auto* each : {&racing, &compiled}) {
          Tensor found = (*each)(x), a = torch::autograd::grad({found.sum()}, {x})[0];
          if (!found.equal(expected) || !a.equal(b)) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(compiled.stats().compiledCalls, 243U);
  EXPECT_LE(compiled.stats().variants, 3U);
  EXPECT_LE(racing.stats().variants, 3U);
}

}  // namespace
}  // namespace saker::testing
