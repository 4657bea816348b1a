// A LibTorch training loop, eager and captured side by side: the whole step (forward, backward, update) is one graph.
#include <saker/saker.h>
#include <torch/torch.h>

#include <cstdio>
#include <iostream>

namespace {

struct Net : torch::nn::Module {
  torch::nn::Linear first{nullptr}, second{nullptr};
  Net() {
    first = register_module("first", torch::nn::Linear(16, 64));
    second = register_module("second", torch::nn::Linear(64, 1));
  }
  at::Tensor forward(const at::Tensor& x) { return second(torch::gelu(first(x))); }
};

// One step of gradient descent on the network's parameters, in place. Gives the loss.
at::Tensor step(Net& net, const at::Tensor& x, const at::Tensor& y) {
  std::vector<at::Tensor> parameters = net.parameters();
  at::Tensor loss = torch::mse_loss(net.forward(x), y);
  std::vector<at::Tensor> gradients = torch::autograd::grad({loss}, parameters);
  torch::NoGradGuard off;
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].sub_(gradients[i], 0.05);
  return loss.detach();
}

// A step with an optimizer, which clears and sets .grad. Captured once, the graph runs whatever .grad there is.
bool trainsWithOptimizer(const at::Tensor& x, const at::Tensor& y) {
  auto eager = std::make_shared<Net>();
  auto captured = std::make_shared<Net>();
  {
    torch::NoGradGuard off;
    for (size_t i = 0; i < eager->parameters().size(); ++i) captured->parameters()[i].copy_(eager->parameters()[i]);
  }
  torch::optim::SGD eagerly(eager->parameters(), 0.05), recorded(captured->parameters(), 0.05);
  auto train = [&](Net& net, torch::optim::SGD& optimizer, const saker::Tensors& inputs) {
    optimizer.zero_grad();
    at::Tensor loss = torch::mse_loss(net.forward(inputs[0]), inputs[1]);
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
  torch::mse_loss(captured->forward(x), y).backward();
  at::Tensor gradient = captured->parameters()[0].grad();
  saker::Graph graph =
      saker::capture([&](const saker::Tensors& inputs) { return saker::Tensors{train(*captured, recorded, inputs)}; },
                     {x, y}, {}, captured->parameters());
  bool same = captured->parameters()[0].grad().is_same(gradient);
  for (int i = 0; i < 6; ++i) {
    if (i == 3) captured->zero_grad();
    same &= at::equal(train(*eager, eagerly, {x, y}), graph({x, y})[0]);
    same &= at::equal(eager->parameters()[0].grad(), captured->parameters()[0].grad());
  }
  return same;
}

// A Function of the user's has a gradient of its own, which the results of a graph have too.
struct Tenfold : torch::autograd::Function<Tenfold> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x * 2; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 10};
  }
};

bool keepsFunctions() {
  at::Tensor x = torch::ones({3}, torch::requires_grad());
  saker::Graph graph =
      saker::capture([](const saker::Tensors& inputs) { return saker::Tensors{Tenfold::apply(inputs[0]) + 1}; }, {x});
  at::Tensor gradient = torch::autograd::grad({graph({x})[0].sum()}, {x})[0];
  return at::equal(gradient, torch::full({3}, 10.0));
}

// A size that changes is at least 2: others mean other things in PyTorch, and are refused.
bool checksRanges() {
  saker::Graph graph = saker::capture([](const saker::Tensors& inputs) { return saker::Tensors{inputs[0] * 2}; },
                                      {torch::ones({4, 3})}, {{0, 0, "batch"}});
  bool right = at::equal(graph({torch::ones({7, 3})})[0], torch::full({7, 3}, 2.0));
  for (int64_t size : {0, 1}) {
    try {
      graph({torch::ones({size, 3})});
      right = false;
    } catch (const saker::RunError&) {
    }
  }
  return right;
}

}  // namespace

int main() {
  torch::manual_seed(0);
  auto eager = std::make_shared<Net>();
  auto captured = std::make_shared<Net>();
  {
    torch::NoGradGuard off;
    for (size_t i = 0; i < eager->parameters().size(); ++i) captured->parameters()[i].copy_(eager->parameters()[i]);
  }
  at::Tensor x = torch::randn({128, 16}), y = x.sum(1, true).sin();

  saker::Graph graph = saker::capture(
      [&](const saker::Tensors& inputs) { return saker::Tensors{step(*captured, inputs[0], inputs[1])}; }, {x, y});
  std::cout << "saker " << saker::version() << ": one training step, " << graph.size() << " operators\n" << graph;

  double difference = 0;
  for (int i = 0; i < 50; ++i) {
    at::Tensor a = step(*eager, x, y);
    at::Tensor b = graph({x, y})[0];
    difference = std::max(difference, (a - b).abs().item<double>());
    if (i % 10 == 0) std::printf("step %2d  eager %.6f  captured %.6f\n", i, a.item<double>(), b.item<double>());
  }
  // The same program, differentiated from outside: results carry history.
  saker::Graph forward = saker::capture(
      [&](const saker::Tensors& inputs) { return saker::Tensors{captured->forward(inputs[0]).square().mean()}; }, {x});
  at::Tensor gradient = torch::autograd::grad({forward({x})[0]}, captured->parameters())[0];
  at::Tensor expected = torch::autograd::grad({captured->forward(x).square().mean()}, captured->parameters())[0];
  bool same = difference == 0 && at::equal(gradient, expected);
  same &= trainsWithOptimizer(x, y) && keepsFunctions() && checksRanges();
  std::printf("%s\n", same ? "captured training equals eager training" : "captured training DIFFERS from eager");
  return same ? 0 : 1;
}
