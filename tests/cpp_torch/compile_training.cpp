// Modules that are trained with a compiled forward: every step is eager mode's, to the last bit.
#include "compiled_programs.h"

namespace saker::testing {
namespace {

struct Classifier : torch::nn::Module {
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Dropout drop{nullptr};
  torch::nn::Linear out{nullptr};
  Classifier() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    drop = register_module("drop", torch::nn::Dropout(0.25));
    out = register_module("out", torch::nn::Linear(4 * 6 * 6, 3));
  }
  Tensor forward(const Tensor& x) { return out(drop(torch::relu(norm(conv(x)))).flatten(1)); }
};

struct Perceptron : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};
  Perceptron() {
    first = register_module("first", torch::nn::Linear(8, 32));
    second = register_module("second", torch::nn::Linear(32, 1));
  }
  Tensor forward(const Tensor& x) { return second(torch::gelu(first(x))); }
};

template <typename Net>
std::shared_ptr<Net> copyOfNet(const std::shared_ptr<Net>& net) {
  auto copy = std::make_shared<Net>();
  torch::NoGradGuard off;
  for (size_t i = 0; i < net->parameters().size(); ++i) copy->parameters()[i].copy_(net->parameters()[i]);
  for (size_t i = 0; i < net->buffers().size(); ++i) copy->buffers()[i].copy_(net->buffers()[i]);
  return copy;
}

template <typename Net>
void expectSameNets(const Net& found, const Net& expected, int step) {
  std::string what = "step " + std::to_string(step) + ", ";
  for (size_t i = 0; i < found.parameters().size(); ++i) {
    Tensor a = found.parameters()[i], b = expected.parameters()[i];
    EXPECT_TRUE(a.equal(b)) << what << "parameter " << i;
    ASSERT_EQ(a.grad().defined(), b.grad().defined());
    if (!a.grad().defined()) continue;
    EXPECT_TRUE(a.grad().equal(b.grad())) << what << "gradient " << i;
  }
  for (size_t i = 0; i < found.buffers().size(); ++i) {
    EXPECT_TRUE(found.buffers()[i].equal(expected.buffers()[i])) << what << "buffer " << i;
  }
}

// Fifty steps of an optimizer, eager and compiled, on the same batches and random numbers.
template <typename Net, typename Optimizer, typename Options>
void trainBoth(const std::vector<int64_t>& sizes, const Options& options, const std::function<Tensor(Tensor)>& target) {
  at::set_num_threads(1);  // small tensors; other threads would only wait
  torch::manual_seed(1);
  auto eager = std::make_shared<Net>();
  auto compiled = copyOfNet(eager);
  auto forward = compileAll(compiled);
  Optimizer first(eager->parameters(), options), second(compiled->parameters(), options);
  for (int step = 0; step < 50; ++step) {
    std::vector<int64_t> batch = sizes;
    if (step % 10 == 9) batch[0] = 5;  // the last batch of an epoch is smaller
    Tensor x = torch::randn(batch), y = target(x);
    auto train = [&](auto& optimizer, const std::function<Tensor(const Tensor&)>& model) {
      torch::manual_seed(step);
      optimizer.zero_grad();
      Tensor loss = torch::mse_loss(model(x), y);
      loss.backward();
      optimizer.step();
      return loss.item<double>();
    };
    double expected = train(first, [&](const Tensor& given) { return eager->forward(given); });
    double found = train(second, forward);
    ASSERT_EQ(found, expected) << "step " << step;
    expectSameNets(*compiled, *eager, step);
  }
  EXPECT_EQ(forward.stats().compiledCalls, 50U) << forward.report();
  EXPECT_LE(forward.stats().variants, 2U);
  eager->eval();
  compiled->eval();
  torch::NoGradGuard off;
  Tensor x = torch::randn(sizes);
  expectSame(forward(x), eager->forward(x), "inference");
  EXPECT_EQ(forward.stats().compiledCalls, 51U);
}

TEST(CompileTraining, PerceptronWithMomentum) {
  trainBoth<Perceptron, torch::optim::SGD>({16, 8}, torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-4),
                                           [](const Tensor& x) { return x.sum(1, true).sin(); });
}

TEST(CompileTraining, PerceptronWithAdam) {
  trainBoth<Perceptron, torch::optim::AdamW>({16, 8}, torch::optim::AdamWOptions(1e-2),
                                             [](const Tensor& x) { return x.sum(1, true).sin(); });
}

// Running statistics are written, random numbers are drawn.
TEST(CompileTraining, ConvolutionWithBatchNormAndDropout) {
  trainBoth<Classifier, torch::optim::SGD>({6, 1, 6, 6}, torch::optim::SGDOptions(0.05),
                                           [](const Tensor& x) { return x.flatten(1).slice(1, 0, 3); });
}

TEST(CompileTraining, LossWithAModuleInALambda) {
  torch::manual_seed(2);
  auto eager = std::make_shared<Perceptron>();
  auto compiled = copyOfNet(eager);
  CompileOptions options;
  options.state = stateOf(compiled);
  auto loss =
      compileAll([&](const Tensor& x, const Tensor& y) { return torch::mse_loss(compiled->forward(x), y); }, options);
  torch::optim::SGD first(eager->parameters(), 0.1), second(compiled->parameters(), 0.1);
  for (int step = 0; step < 50; ++step) {
    Tensor x = torch::randn({4 + step % 3, 8}), y = x.mean(1, true);
    first.zero_grad();
    torch::mse_loss(eager->forward(x), y).backward();
    first.step();
    second.zero_grad();
    loss(x, y).backward();
    second.step();
    expectSameNets(*compiled, *eager, step);
  }
  EXPECT_EQ(loss.stats().compiledCalls, 50U) << loss.report();
}

// Gradients add up over calls, and gradients of a part are asked for alone.
TEST(CompileTraining, GradientsAccumulate) {
  auto eager = std::make_shared<Perceptron>();
  auto compiled = copyOfNet(eager);
  auto forward = compileAll(compiled);
  for (int i = 0; i < 3; ++i) {
    Tensor x = torch::randn({4, 8});
    eager->forward(x).sum().backward();
    forward(x).sum().backward();
    expectSameNets(*compiled, *eager, i);
  }
  Tensor x = torch::randn({4, 8});
  expectSame(torch::autograd::grad({forward(x).sum()}, {compiled->second->bias})[0],
             torch::autograd::grad({eager->forward(x).sum()}, {eager->second->bias})[0], "gradient of one parameter");
}

TEST(CompileTraining, ParametersAreReplacedFrozenAndMoved) {
  auto eager = std::make_shared<Perceptron>();
  auto compiled = copyOfNet(eager);
  auto forward = compileAll(compiled);
  auto check = [&](int step) {
    Tensor x = torch::randn({4, 8}).to(eager->first->weight.scalar_type());
    eager->zero_grad();
    compiled->zero_grad();
    eager->forward(x).sum().backward();
    forward(x).sum().backward();
    expectSameNets(*compiled, *eager, step);
  };
  check(0);
  eager->first->weight.set_requires_grad(false);
  compiled->first->weight.set_requires_grad(false);
  check(1);
  Tensor anew = torch::randn({1, 32});
  for (const auto& net : {eager, compiled}) {
    net->second = net->replace_module("second", torch::nn::Linear(32, 1));
    torch::NoGradGuard off;
    net->second->weight.copy_(anew);
    net->second->bias.zero_();
  }
  check(2);
  eager->to(torch::kDouble);
  compiled->to(torch::kDouble);
  check(3);
  EXPECT_EQ(forward.stats().eagerCalls, 0U) << forward.report();
}

TEST(CompileTraining, RecurrentAndSequential) {
  torch::manual_seed(4);
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(3, 4).batch_first(true));
  auto last = [&](const Tensor& x) { return std::get<0>(lstm->forward(x)).select(1, -1); };
  CompileOptions options;
  options.state = stateOf(lstm);
  auto compiled = compileAll(last, options);
  for (int64_t length : {5, 5, 6}) {
    Tensor x = torch::randn({2, length, 3}, torch::requires_grad());
    Tensor a = compiled(x), b = last(x);
    expectSame(a, b, "result");
    EXPECT_TRUE(torch::autograd::grad({a.sum()}, {x})[0].equal(torch::autograd::grad({b.sum()}, {x})[0]));
  }
  torch::nn::Sequential layers(torch::nn::Linear(3, 4), torch::nn::ReLU(), torch::nn::Linear(4, 2));
  auto stack = compileAll(layers);
  Tensor x = torch::randn({5, 3});
  for (int i = 0; i < 2; ++i) expectSame(stack(x), layers->forward(x), "result");
  EXPECT_EQ(stack.stats().compiledCalls, 2U);
}

}  // namespace
}  // namespace saker::testing
