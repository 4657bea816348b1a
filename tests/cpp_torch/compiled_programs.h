// Comparing a function that saker::compile has compiled with the same function called as it is.
#pragma once

#include <gtest/gtest.h>
#include <saker/saker.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

namespace saker::testing {

using at::Tensor;

enum class Versions { Compared, Free };

inline void expectSame(const Tensor& found, const Tensor& expected, const std::string& what,
                       Versions versions = Versions::Compared) {
  ASSERT_EQ(found.defined(), expected.defined()) << what;
  if (!found.defined()) return;
  EXPECT_EQ(found.scalar_type(), expected.scalar_type()) << what;
  EXPECT_EQ(found.sizes(), expected.sizes()) << what;
  EXPECT_EQ(found.strides(), expected.strides()) << what;
  EXPECT_EQ(found.requires_grad(), expected.requires_grad()) << what;
  EXPECT_EQ(found.is_leaf(), expected.is_leaf()) << what;
  EXPECT_EQ(found.is_inference(), expected.is_inference()) << what;
  if (versions == Versions::Compared && !found.is_inference()) {
    EXPECT_EQ(found._version(), expected._version()) << what;
  }
  ASSERT_EQ(found.sizes(), expected.sizes()) << what;
  EXPECT_TRUE(found.detach().equal(expected.detach())) << what << " is\n" << found << "\nnot\n" << expected;
}

inline void expectSame(const Tensors& found, const Tensors& expected, const std::string& what,
                       Versions versions = Versions::Compared) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) expectSame(found[i], expected[i], what + " " + std::to_string(i), versions);
}

// A function over inputs and tensors that it closes over.
using Program = std::function<Tensors(const Tensors& inputs, const Tensors& closed)>;

// A copy with the same strides that autograd does not know.
inline Tensor copyOf(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  Tensor copy = torch::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().requires_grad(false));
  copy.copy_(tensor.detach());
  return copy.set_requires_grad(tensor.requires_grad());
}

inline Tensors copiesOf(const Tensors& tensors) {
  Tensors copies;
  for (const Tensor& tensor : tensors) copies.push_back(copyOf(tensor));
  return copies;
}

// Which result is, or shares memory with, which other result or input.
inline std::vector<std::string> aliasesOf(const Tensors& results, const Tensors& inputs, const Tensors& closed) {
  std::vector<std::string> out;
  auto compare = [&](const Tensor& a, const Tensor& b) {
    if (!a.defined() || !b.defined()) return std::string("-");
    if (a.is_same(b)) return std::string("same");
    if (!a.is_alias_of(b)) return std::string("apart");
    return std::string(a.is_view() ? "view" : "alias");
  };
  for (const Tensor& result : results) {
    for (const Tensors* others : {&results, &inputs, &closed}) {
      for (const Tensor& other : *others) out.push_back(compare(result, other));
    }
  }
  return out;
}

// A program of one input for tests that look at something else.
inline Tensor scaled(const Tensor& x) { return (x.sin() * 2).sum(-1); }

// Calls both and compares results and gradients.
inline void expectLike(const std::function<Tensor(const Tensor&)>& compiled,
                       const std::function<Tensor(const Tensor&)>& eager, const Tensor& x) {
  Tensor first = copyOf(x), second = copyOf(x);
  Tensor found = compiled(first), expected = eager(second);
  expectSame(found, expected, "result");
  if (!expected.requires_grad()) return;
  found.sum().backward();
  expected.sum().backward();
  expectSame(first.grad(), second.grad(), "gradient");
}

// Everything that can be seen of one call and of a backward behind it.
struct Seen {
  Tensors results, inputs, closed, gradients, closedGradients;
  std::vector<std::string> aliases;
  Tensor random;
};

inline void backward(const Tensors& results) {
  if (!c10::GradMode::is_enabled()) return;
  Tensor loss;
  for (const Tensor& result : results) {
    if (!result.defined() || !result.requires_grad()) continue;
    Tensor part = (result * (result.detach().cos() + 2)).sum();
    loss = loss.defined() ? loss + part : part;
  }
  if (loss.defined()) loss.backward();
}

inline Seen look(const std::function<Tensors(const Tensors&)>& call, const Tensors& inputs, const Tensors& closed) {
  Seen seen;
  torch::manual_seed(7);
  seen.results = call(inputs);
  seen.random = torch::rand({2});
  seen.aliases = aliasesOf(seen.results, inputs, closed);
  backward(seen.results);
  seen.inputs = inputs;
  seen.closed = closed;
  for (const Tensor& input : inputs) {
    seen.gradients.push_back(input.defined() && input.is_leaf() ? input.grad() : Tensor());
  }
  for (const Tensor& tensor : closed) seen.closedGradients.push_back(tensor.grad());
  return seen;
}

inline void expectSame(const Seen& found, const Seen& expected, const std::string& what) {
  expectSame(found.results, expected.results, what + ": result");
  expectSame(found.inputs, expected.inputs, what + ": input");
  expectSame(found.closed, expected.closed, what + ": closed-over tensor");
  // How often a formula wrote to its own result before it gave it is not to be seen.
  expectSame(found.gradients, expected.gradients, what + ": gradient of input", Versions::Free);
  expectSame(found.closedGradients, expected.closedGradients, what + ": gradient of closed-over tensor",
             Versions::Free);
  EXPECT_EQ(found.aliases, expected.aliases) << what;
  expectSame(found.random, expected.random, what + ": the next random number");
}

// Compiled also where a call is one small operator, and would otherwise go on as it is (compile_small.cpp).
template <typename Callable>
auto compileAll(Callable function, CompileOptions options = {}) {
  options.compileSmall = true;
  return compile(std::move(function), std::move(options));
}

// Calls the program `calls` times as it is and compiled, on equal inputs, and compares what can be seen of each call.
// Gives what the compiled function tells of itself.
struct Told {
  CompileStats stats;
  std::string report;
};
inline Told expectEager(const Program& program, const std::function<Tensors()>& makeInputs, const Tensors& closed = {},
                        CompileOptions options = {}, int calls = 3) {
  Tensors eagerClosed = copiesOf(closed), compiledClosed = copiesOf(closed);
  Compiled compiled = compileAll([&](const Tensors& inputs) { return program(inputs, compiledClosed); }, options);
  for (int i = 0; i < calls; ++i) {
    Tensors inputs = makeInputs();
    Tensors first = copiesOf(inputs), second = copiesOf(inputs);
    Seen expected = look([&](const Tensors& given) { return program(given, eagerClosed); }, first, eagerClosed);
    Seen found = look([&](const Tensors& given) { return compiled(given); }, second, compiledClosed);
    expectSame(found, expected, "call " + std::to_string(i));
  }
  return {compiled.stats(), compiled.report()};
}

}  // namespace saker::testing
