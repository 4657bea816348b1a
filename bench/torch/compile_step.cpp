// A LibTorch training step with a forward that saker::compile has compiled, beside the same step in eager mode: how
// long each takes, and what a call costs beyond the operators.
#include <saker/saker.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace {

using at::Tensor;

double microseconds(const std::function<void()>& run, int times) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) run();
  std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  return time.count() / times;
}

// Both are measured by turns, since the machine may be shared; the best of each counts.
void compare(const char* name, const std::function<void()>& eager, const std::function<void()>& compiled) {
  double bestEager = 1e30, bestCompiled = 1e30;
  for (int i = 0; i < 10; ++i) eager(), compiled();
  for (int round = 0; round < 60; ++round) {
    bestEager = std::min(bestEager, microseconds(eager, 20));
    bestCompiled = std::min(bestCompiled, microseconds(compiled, 20));
  }
  std::printf("%-44s eager %8.2f us   compiled %8.2f us   %.2f times as long\n", name, bestEager, bestCompiled,
              bestCompiled / bestEager);
}

// One operator: calls go on as they are, and with compileSmall through what was compiled for them.
void compareSmall() {
  Tensor few = torch::randn({4}), matrix = torch::randn({4, 4});
  saker::CompileOptions always;
  always.compileSmall = true;
  auto both = [&](const std::string& name, auto function, const Tensor& x) {
    auto compiled = saker::compile(function), forced = saker::compile(function, always);
    compare(name.c_str(), [&] { function(x); }, [&] { compiled(x); });
    compare((name + ", compiled all the same").c_str(), [&] { function(x); }, [&] { forced(x); });
  };
  both("sin(x) of 4 numbers", [](const Tensor& x) { return x.sin(); }, few);
  both("a view", [](const Tensor& x) { return x.t(); }, matrix);
  both("a write in place", [](const Tensor& x) { return x.add_(1); }, few);
}

struct Net : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
  Net() {
    first = register_module("first", torch::nn::Linear(16, 32));
    second = register_module("second", torch::nn::Linear(32, 32));
    third = register_module("third", torch::nn::Linear(32, 1));
  }
  Tensor forward(const Tensor& x) { return third(torch::tanh(second(torch::tanh(first(x))))); }
};

}  // namespace

int main() {
  at::set_num_threads(1);
  torch::manual_seed(0);
  auto net = std::make_shared<Net>();
  Tensor x = torch::randn({32, 16}), y = torch::randn({32, 1});
  auto loss = [&](const Tensor& in, const Tensor& out) { return torch::mse_loss(net->forward(in), out); };
  saker::CompileOptions options;
  options.state = saker::stateOf(net);
  auto compiled = saker::compile(loss), guarded = saker::compile(loss, options);
  torch::optim::SGD optimizer(net->parameters(), 0.001);
  auto step = [&](const auto& function) {
    return [&] {
      optimizer.zero_grad();
      function(x, y).backward();
      optimizer.step();
    };
  };
  compare("MLP of 3 layers: forward and backward, step", step(loss), step(compiled));
  compare("the same, with the state of the module", step(loss), step(guarded));
  {
    torch::NoGradGuard off;
    compare("the same in inference", [&] { loss(x, y); }, [&] { compiled(x, y); });
    auto small = [](const Tensor& in) { return in.sin() + 1; };
    auto fast = saker::compile(small);
    Tensor few = torch::randn({4});
    compare("sin(x) + 1 of 4 numbers", [&] { small(few); }, [&] { fast(few); });
    compareSmall();
  }
  std::printf("%s", compiled.report().c_str());
}
