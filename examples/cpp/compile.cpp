// A LibTorch training program, compiled by Saker: the loss, with its backward. It trains the same network in eager mode
// beside it, and says whether both are the same to the last bit.
#include <saker/saker.h>
#include <torch/torch.h>

#include <cstdio>
#include <iostream>

struct Net : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::Dropout drop{nullptr};
  Net() {
    first = register_module("first", torch::nn::Linear(16, 64));
    drop = register_module("drop", torch::nn::Dropout(0.1));
    second = register_module("second", torch::nn::Linear(64, 1));
  }
  at::Tensor forward(const at::Tensor& x) { return second(drop(torch::gelu(first(x)))); }
};

// Trains for a few epochs with any function that gives the loss. The last batch of an epoch is smaller.
template <typename Loss>
std::vector<double> train(Net& net, const Loss& loss) {
  torch::manual_seed(0);
  torch::optim::AdamW optimizer(net.parameters(), torch::optim::AdamWOptions(1e-2));
  at::Tensor inputs = torch::randn({300, 16}), targets = inputs.sum(1, true).sin();
  std::vector<double> losses;
  for (int epoch = 0; epoch < 10; ++epoch) {
    for (int64_t at = 0; at < inputs.size(0); at += 64) {
      at::Tensor x = inputs.slice(0, at, at + 64), y = targets.slice(0, at, at + 64);
      optimizer.zero_grad();
      at::Tensor value = loss(x, y);
      value.backward();
      optimizer.step();
      losses.push_back(value.item<double>());
    }
  }
  return losses;
}

int main() {
  torch::manual_seed(1);
  auto eager = std::make_shared<Net>(), net = std::make_shared<Net>();
  {
    torch::NoGradGuard off;
    for (size_t i = 0; i < net->parameters().size(); ++i) net->parameters()[i].copy_(eager->parameters()[i]);
  }

  // The function to compile. `state` says what it uses beside its inputs, so that new parameters, train() and eval()
  // are noticed.
  saker::CompileOptions options;
  options.names = {"x", "y"};
  options.state = saker::stateOf(net);
  auto loss = saker::compile(
      [&](const at::Tensor& x, const at::Tensor& y) { return torch::mse_loss(net->forward(x), y); }, options);

  std::vector<double> found = train(*net, loss);
  std::vector<double> expected =
      train(*eager, [&](const at::Tensor& x, const at::Tensor& y) { return torch::mse_loss(eager->forward(x), y); });
  std::cout << "saker " << saker::version() << "\n" << loss.report();
  std::printf("loss %.6f -> %.6f\n", found.front(), found.back());

  // A module is compiled as it is; without autograd and in eval mode it has other graphs.
  auto model = saker::compile(net);
  net->eval();
  eager->eval();
  torch::NoGradGuard off;
  at::Tensor x = torch::randn({8, 16});
  bool same = found == expected && model(x).equal(eager->forward(x));
  same = same && loss.stats().eagerCalls == 0 && model.stats().compiledCalls == 1;
  std::printf("%s\n", same ? "compiled training equals eager training" : "compiled training DIFFERS from eager");
  return same ? 0 : 1;
}
