// When saker::compile compiles again, what it notices of a program that changes, and what it says where it cannot
// compile.
#include <ATen/autocast_mode.h>

#include <atomic>
#include <thread>

#include "compiled_programs.h"

namespace saker::testing {
namespace {

Tensor scaled(const Tensor& x) { return (x.sin() * 2).sum(-1); }

// Calls both and compares results and gradients.
void expectLike(const std::function<Tensor(const Tensor&)>& compiled, const std::function<Tensor(const Tensor&)>& eager,
                const Tensor& x) {
  Tensor first = copyOf(x), second = copyOf(x);
  Tensor found = compiled(first), expected = eager(second);
  expectSame(found, expected, "result");
  if (!expected.requires_grad()) return;
  found.sum().backward();
  expected.sum().backward();
  expectSame(first.grad(), second.grad(), "gradient");
}

TEST(CompileVariants, SecondSizeMakesSizesSymbolic) {
  auto compiled = compile(scaled);
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
  auto row = [](const Tensor& x) { return x.sin() * 2 + x.reshape(-1)[1]; };
  auto compiled = compile(row, {.sizes = CompileOptions::Sizes::Fixed});
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
  auto compiled = compile(add);
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
  auto compiled = compile(scaled);
  for (int64_t size : {4, 7, 1, 0, 5, 1, 0}) {
    expectLike(compiled, scaled, torch::randn({size, 3}, torch::requires_grad()));
  }
  EXPECT_EQ(compiled.stats().compiledCalls, 7U);
  EXPECT_EQ(compiled.stats().variants, 4U);
}

TEST(CompileVariants, SeveralSizesChange) {
  auto both = [](const Tensor& a, const Tensor& b) { return torch::mm(a, b); };
  auto compiled = compile(both);
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
  auto compiled = compile(average);
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
  auto compiled = compile(program);
  for (int64_t size : {4, 5, 6, 7, 8, 5}) {
    expectLike(compiled, program, torch::randn({size, 3}, torch::requires_grad()));
  }
  EXPECT_EQ(compiled.stats().eagerCalls, 0U) << compiled.report();
}

TEST(CompileVariants, BranchesOnSizesAreGuarded) {
  auto branches = [](const Tensor& x) { return x.sym_size(0) > 8 ? x * 2 : x * 3; };
  auto compiled = compile(branches);
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
  auto one = compile(scaled, fixed), any = compile(scaled, symbolic);
  for (int64_t size : {4, 5, 6}) {
    expectLike(one, scaled, torch::randn({size, size + 1}, torch::requires_grad()));
    expectLike(any, scaled, torch::randn({size, size + 1}, torch::requires_grad()));
  }
  EXPECT_EQ(one.stats().variants, 3U);
  EXPECT_EQ(any.stats().variants, 1U);
}

TEST(CompileVariants, DtypeStridesAndRequiresGrad) {
  auto compiled = compile(scaled);
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
  auto compiled = compile(program);
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
  auto compiled = compile(program);
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
  auto compiled = compile(program);
  Tensor memory = torch::arange(8.0);
  for (int64_t start : {0, 3, 0, 4}) {
    Tensor part = memory.slice(0, start, start + 3);
    expectSame(compiled(part), program(part), "result");
  }
}

// --- what the function closes over ---

TEST(CompileClosedOver, CurrentDataIsUsed) {
  Tensor weight = torch::ones({3});
  auto compiled = compile([&](const Tensor& x) { return x * weight; });
  for (int i = 0; i < 3; ++i) {
    weight.fill_(i);
    expectSame(compiled(torch::ones({3})), torch::full({3}, static_cast<double>(i)), "result");
  }
  EXPECT_EQ(compiled.stats().variants, 1U);
}

TEST(CompileClosedOver, RequiresGradIsFlipped) {
  Tensor weight = torch::ones({3});
  auto compiled = compile([&](const Tensor& x) { return x * weight; });
  for (bool requiresGrad : {false, true, false, true}) {
    weight.set_requires_grad(requiresGrad);
    EXPECT_EQ(compiled(torch::ones({3})).requires_grad(), requiresGrad);
  }
  EXPECT_EQ(compiled.stats().compiledCalls, 4U);
  EXPECT_EQ(compiled.stats().variants, 2U);
}

TEST(CompileClosedOver, IsResizedOrChangesDtype) {
  Tensor weight = torch::ones({3});
  auto program = [&](const Tensor& x) { return (x.unsqueeze(-1) * weight).sum(-1); };
  auto compiled = compile(program);
  Tensor x = torch::randn({2});
  expectSame(compiled(x), program(x), "before");
  weight.set_data(torch::full({5}, 2.0));
  expectSame(compiled(x), program(x), "resized");
  weight.set_data(torch::full({5}, 2.0, torch::kDouble));
  expectSame(compiled(x), program(x), "another dtype");
  EXPECT_EQ(compiled.stats().compiledCalls, 3U);
}

// Nobody else holds the old one: that is noticed without being told.
TEST(CompileClosedOver, IsReplaced) {
  Tensor weight = torch::ones({3}, torch::requires_grad());
  auto compiled = compile([&](const Tensor& x) { return x * weight; });
  for (int i = 1; i < 5; ++i) {
    weight = torch::full({3}, static_cast<double>(i), torch::requires_grad());
    Tensor result = compiled(torch::ones({3}));
    expectSame(result.detach(), torch::full({3}, static_cast<double>(i)), "result");
    result.sum().backward();
    EXPECT_TRUE(weight.grad().defined());
  }
  EXPECT_EQ(compiled.stats().variants, 1U);  // the old ones are dropped
}

// Somebody does: the options name it.
TEST(CompileClosedOver, IsReplacedWhileOthersHoldIt) {
  Tensor weight = torch::ones({3});
  CompileOptions options;
  options.limit = 2;
  options.state = [&] { return State{{weight}}; };
  auto compiled = compile([&](const Tensor& x) { return x * weight; }, options);
  Tensors held;
  for (int i = 0; i < 6; ++i) {
    held.push_back(weight = torch::full({3}, static_cast<double>(i)));
    expectSame(compiled(torch::ones({3})), weight, "result");
  }
  EXPECT_EQ(compiled.stats().compiledCalls, 6U);
  EXPECT_LE(compiled.stats().variants, 2U);
}

TEST(CompileClosedOver, NumbersOfTheState) {
  int64_t factor = 2;
  CompileOptions options;
  options.state = [&] { return State{{}, {factor}}; };
  auto compiled = compile([&](const Tensor& x) { return x * factor; }, options);
  for (int64_t each : {2, 3, 2, 3}) {
    factor = each;
    expectSame(compiled(torch::ones({2})), torch::full({2}, static_cast<double>(each)), "result");
  }
  EXPECT_EQ(compiled.stats().variants, 2U);
}

TEST(CompileClosedOver, IsAnInputToo) {
  Tensor weight = torch::randn({3}, torch::requires_grad()), buffer = torch::ones({3});
  auto product = [&](const Tensor& x) { return x * weight; };
  auto writes = [&](const Tensor& x) {
    buffer.add_(1);
    return x * buffer;
  };
  auto compiled = compile(product);
  auto writing = compile(writes);
  for (const Tensor& x : {weight, torch::ones({3}), weight}) {
    Tensor found = compiled(x), expected = product(x);
    expectSame(found, expected, "result");
    expectSame(torch::autograd::grad({found.sum()}, {weight})[0], torch::autograd::grad({expected.sum()}, {weight})[0],
               "gradient", Versions::Free);
  }
  for (int i = 0; i < 4; ++i) {
    Tensor before = buffer.clone();
    Tensor found = writing(i % 2 ? buffer : torch::ones({3}));
    EXPECT_TRUE(buffer.equal(before + 1)) << i;
    EXPECT_TRUE(found.equal(i % 2 ? buffer * buffer : buffer)) << i;
  }
}

TEST(CompileClosedOver, HasHooks) {
  Tensor weight = torch::ones({3}, torch::requires_grad());
  auto compiled = compile([&](const Tensor& x) { return x * weight; });
  compiled(torch::ones({3})).sum().backward();
  EXPECT_TRUE(weight.grad().equal(torch::ones({3})));
  weight.register_hook([](const Tensor& gradient) { return gradient * 5; });
  weight.mutable_grad() = Tensor();
  compiled(torch::ones({3})).sum().backward();
  EXPECT_TRUE(weight.grad().equal(torch::full({3}, 5.0)));
}

// --- what cannot be compiled ---

struct Tenfold : torch::autograd::Function<Tenfold> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x * 2; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 10};
  }
};

TEST(CompileRefuses, FunctionsRunAsTheyAre) {
  auto program = [](const Tensor& x) { return Tenfold::apply(x) + 1; };
  auto compiled = compile(program);
  for (int i = 0; i < 2; ++i) expectLike(compiled, program, torch::randn({3}, torch::requires_grad()));
  EXPECT_EQ(compiled.stats().eagerCalls, 2U);
  EXPECT_NE(compiled.report().find("eager: "), std::string::npos) << compiled.report();
}

TEST(CompileRefuses, FullgraphThrowsWithTheReason) {
  CompileOptions options;
  options.fullgraph = true;
  auto compiled = compile([](const Tensor& x) { return x * x.sum().item<double>(); }, options);
  for (int i = 0; i < 2; ++i) {
    try {
      compiled(torch::ones({3}));
      FAIL() << "it was compiled";
    } catch (const CaptureError& error) {
      std::string text = error.what();
      EXPECT_NE(text.find("aten::_local_scalar_dense"), std::string::npos) << text;
      EXPECT_NE(text.find("torch.where"), std::string::npos) << text;
    }
  }
  EXPECT_EQ(compiled.stats().captures, 1U);
}

TEST(CompileRefuses, ErrorsAreTheFunctionsOwn) {
  auto program = [](const Tensor& a, const Tensor& b) {
    a.add_(1);
    return torch::mm(a, b);
  };
  auto compiled = compile(program);
  Tensor written = torch::zeros({2, 3});
  EXPECT_THROW(compiled(written, torch::ones({2, 3})), c10::Error);
  expectSame(written, torch::zeros({2, 3}).add_(1), "what was written before the error");
  Tensor good = torch::ones({3, 2});
  expectSame(compiled(written.clone(), good), program(written.clone(), good), "a good call");
  EXPECT_EQ(compiled.stats().variants, 1U);

  auto throws = compile([](const Tensor&) -> Tensor { throw std::out_of_range("mine"); });
  EXPECT_THROW(throws(good), std::out_of_range);
}

TEST(CompileRefuses, SeedsInsideRunAsTheyAre) {
  auto program = [](const Tensor& x) {
    torch::manual_seed(11);
    return x + torch::rand({3});
  };
  auto compiled = compile(program);
  for (int i = 0; i < 2; ++i) expectSame(compiled(torch::ones({3})), program(torch::ones({3})), "result");
  EXPECT_EQ(compiled.stats().compiledCalls, 0U);
}

TEST(CompileRefuses, MemoryThatNobodyOwns) {
  auto program = [](const Tensor& x) {
    std::vector<float> weights(3, 2.0F);
    return x * torch::from_blob(weights.data(), {3});
  };
  auto compiled = compile(program);
  for (int i = 0; i < 3; ++i) expectSame(compiled(torch::ones({3})), program(torch::ones({3})), "result");
  EXPECT_EQ(compiled.stats().eagerCalls, 3U) << compiled.report();
  // Outside of the function it is the program's, which sees to it that it stays.
  std::vector<float> weights(3, 2.0F);
  Tensor outside = torch::from_blob(weights.data(), {3});
  auto other = compile([&](const Tensor& x) { return x * outside; });
  for (int i = 0; i < 2; ++i) {
    weights[0] = static_cast<float>(i);
    expectSame(other(torch::ones({3})), torch::ones({3}) * outside, "result");
  }
  EXPECT_EQ(other.stats().compiledCalls, 2U) << other.report();
}

TEST(CompileRefuses, TensorsThatTheFunctionKeeps) {
  Tensor hidden = torch::zeros({3});
  CompileOptions options;
  options.state = [&] { return State{{hidden}}; };
  auto compiled = compile([&](const Tensor& x) { return hidden = torch::tanh(hidden + x); }, options);
  try {
    compiled(torch::ones({3}));
    FAIL() << "it was compiled";
  } catch (const CaptureError& error) {
    EXPECT_NE(std::string(error.what()).find("copy_"), std::string::npos) << error.what();
  }
}

// It reads data for some sizes only: other sizes stay compiled.
TEST(CompileRefuses, ForSomeSizes) {
  auto program = [](const Tensor& x) { return x.size(0) > 8 ? x * x.sum().item<double>() : x * 2; };
  auto compiled = compile(program);
  for (int64_t size : {4, 5, 20, 4, 5, 20}) {
    expectLike(compiled, program, torch::randn({size}, torch::requires_grad()));
  }
  EXPECT_EQ(compiled.stats().compiledCalls, 4U) << compiled.report();
}

TEST(CompileRefuses, BeyondTheLimit) {
  CompileOptions options;
  options.limit = 2;
  options.names = {"batch"};
  options.sizes = CompileOptions::Sizes::Fixed;
  auto compiled = compile(scaled, options);
  for (int64_t size : {2, 3, 4, 5, 2}) expectLike(compiled, scaled, torch::randn({size, 3}));
  EXPECT_EQ(compiled.stats().variants, 2U);
  EXPECT_EQ(compiled.stats().eagerCalls, 2U);
  EXPECT_NE(compiled.report().find("the limit of 2 variants"), std::string::npos) << compiled.report();

  options.fullgraph = true;
  auto strict = compile(scaled, options);
  strict(torch::ones({2, 3}));
  strict(torch::ones({3, 3}));
  try {
    strict(torch::ones({4, 3}));
    FAIL() << "it ran";
  } catch (const RunError& error) {
    std::string text = error.what();
    EXPECT_NE(text.find("input 0 is batch: Float[4, 3]"), std::string::npos) << text;
    EXPECT_NE(text.find("CompileOptions::limit"), std::string::npos) << text;
  }
}

TEST(CompileRefuses, OptionsThatMeanNothing) {
  CompileOptions none, budget;
  none.limit = 0;
  budget.memoryBudget = 2;
  EXPECT_THROW(compile(scaled, none), std::invalid_argument);
  EXPECT_THROW(compile(scaled, budget), std::invalid_argument);
  EXPECT_THROW(Compiled(Function(), {}), std::invalid_argument);
}

TEST(CompileRefuses, InsideOfACapture) {
  auto compiled = compile(scaled);
  Graph graph = capture([&](const Tensors& in) { return Tensors{compiled(in[0]) + 1}; }, {torch::ones({2, 3})});
  Tensor x = torch::randn({2, 3});
  expectSame(graph({x})[0], scaled(x) + 1, "result");
  EXPECT_EQ(compiled.stats().variants, 0U);
}

TEST(CompileRefuses, SparseInputs) {
  auto program = [](const Tensor& x) { return x.to_dense() * 2; };
  auto compiled = compile(program);
  Tensor sparse = torch::eye(3).to_sparse();
  expectSame(compiled(sparse), program(sparse), "result");
  EXPECT_EQ(compiled.stats().eagerCalls, 1U);
}

// --- calls ---

TEST(CompileCalls, ResultsAsTheFunctionGivesThem) {
  Tensor x = torch::randn({3});
  auto pair = compile([](const Tensor& a) { return std::make_pair(a.sin(), a.cos()); });
  auto tuple = compile([](const Tensor& a, const Tensor& b) { return std::make_tuple(a + b, a - b, a * b); });
  auto list = compile([](const Tensor& a) { return a.split(1); });
  expectSame(pair(x).second, x.cos(), "second");
  auto [sum, difference, product] = tuple(x, x);
  expectSame(difference, x - x, "difference");
  expectSame(list(x), x.split(1), "list");
  auto nothing = compile([] { return torch::ones({2}); });
  expectSame(nothing(), torch::ones({2}), "no inputs");
}

TEST(CompileCalls, UndefinedInputs) {
  auto program = [](const Tensor& x, const Tensor& bias) { return bias.defined() ? x + bias : x * 2; };
  auto compiled = compile(program);
  Tensor x = torch::randn({3}), bias = torch::randn({3});
  for (int i = 0; i < 2; ++i) {
    expectSame(compiled(x, Tensor()), program(x, Tensor()), "without");
    expectSame(compiled(x, bias), program(x, bias), "with");
  }
}

TEST(CompileCalls, OtherNumbersOfInputs) {
  Compiled sum = compile([](const Tensors& in) {
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
  auto compiled = compile(scaled);
  auto copy = compiled;
  copy(torch::ones({2, 3}));
  compiled(torch::ones({2, 3}));
  EXPECT_EQ(compiled.stats().calls, 2U);
  EXPECT_EQ(copy.stats().captures, 1U);
}

TEST(CompileCalls, Recursion) {
  std::function<Tensors(const Tensors&)> call;
  Compiled compiled = compile([&](const Tensors& in) {
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
  auto compiled = compile(program), racing = compile(program);
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
