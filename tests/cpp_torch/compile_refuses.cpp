// What saker::compile says where it cannot compile, and that such programs run as they are.
#include "compiled_programs.h"

namespace saker::testing {
namespace {

struct Tenfold : torch::autograd::Function<Tenfold> {
  static Tensor forward(torch::autograd::AutogradContext*, const Tensor& x) { return x * 2; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 10};
  }
};

TEST(CompileRefuses, FunctionsRunAsTheyAre) {
  auto program = [](const Tensor& x) { return Tenfold::apply(x) + 1; };
  auto compiled = compileAll(program);
  for (int i = 0; i < 2; ++i) expectLike(compiled, program, torch::randn({3}, torch::requires_grad()));
  EXPECT_EQ(compiled.stats().eagerCalls, 2U);
  EXPECT_NE(compiled.report().find("eager: "), std::string::npos) << compiled.report();
}

TEST(CompileRefuses, FullgraphThrowsWithTheReason) {
  CompileOptions options;
  options.fullgraph = true;
  auto compiled = compileAll([](const Tensor& x) { return x * x.sum().item<double>(); }, options);
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
  auto compiled = compileAll(program);
  Tensor written = torch::zeros({2, 3});
  EXPECT_THROW(compiled(written, torch::ones({2, 3})), c10::Error);
  expectSame(written, torch::zeros({2, 3}).add_(1), "what was written before the error");
  Tensor good = torch::ones({3, 2});
  expectSame(compiled(written.clone(), good), program(written.clone(), good), "a good call");
  EXPECT_EQ(compiled.stats().variants, 1U);

  auto throws = compileAll([](const Tensor&) -> Tensor { throw std::out_of_range("mine"); });
  EXPECT_THROW(throws(good), std::out_of_range);
}

TEST(CompileRefuses, SeedsInsideRunAsTheyAre) {
  auto program = [](const Tensor& x) {
    torch::manual_seed(11);
    return x + torch::rand({3});
  };
  auto compiled = compileAll(program);
  for (int i = 0; i < 2; ++i) expectSame(compiled(torch::ones({3})), program(torch::ones({3})), "result");
  EXPECT_EQ(compiled.stats().compiledCalls, 0U);
}

TEST(CompileRefuses, MemoryThatNobodyOwns) {
  auto program = [](const Tensor& x) {
    std::vector<float> weights(3, 2.0F);
    return x * torch::from_blob(weights.data(), {3});
  };
  auto compiled = compileAll(program);
  for (int i = 0; i < 3; ++i) expectSame(compiled(torch::ones({3})), program(torch::ones({3})), "result");
  EXPECT_EQ(compiled.stats().eagerCalls, 3U) << compiled.report();
  // Outside of the function it is the program's, which sees to it that it stays.
  std::vector<float> weights(3, 2.0F);
  Tensor outside = torch::from_blob(weights.data(), {3});
  auto other = compileAll([&](const Tensor& x) { return x * outside; });
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
  auto compiled = compileAll([&](const Tensor& x) { return hidden = torch::tanh(hidden + x); }, options);
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
  auto compiled = compileAll(program);
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
  auto compiled = compileAll(scaled, options);
  for (int64_t size : {2, 3, 4, 5, 2}) expectLike(compiled, scaled, torch::randn({size, 3}));
  EXPECT_EQ(compiled.stats().variants, 2U);
  EXPECT_EQ(compiled.stats().eagerCalls, 2U);
  EXPECT_NE(compiled.report().find("the limit of 2 variants"), std::string::npos) << compiled.report();

  options.fullgraph = true;
  auto strict = compileAll(scaled, options);
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
  EXPECT_THROW(compileAll(scaled, none), std::invalid_argument);
  EXPECT_THROW(compileAll(scaled, budget), std::invalid_argument);
  EXPECT_THROW(Compiled(Function(), {}), std::invalid_argument);
}

TEST(CompileRefuses, InsideOfACapture) {
  auto compiled = compileAll(scaled);
  Graph graph = capture([&](const Tensors& in) { return Tensors{compiled(in[0]) + 1}; }, {torch::ones({2, 3})});
  Tensor x = torch::randn({2, 3});
  expectSame(graph({x})[0], scaled(x) + 1, "result");
  EXPECT_EQ(compiled.stats().variants, 0U);
}

TEST(CompileRefuses, SparseInputs) {
  auto program = [](const Tensor& x) { return x.to_dense() * 2; };
  auto compiled = compileAll(program);
  Tensor sparse = torch::eye(3).to_sparse();
  expectSame(compiled(sparse), program(sparse), "result");
  EXPECT_EQ(compiled.stats().eagerCalls, 1U);
}

}  // namespace
}  // namespace saker::testing
