// What saker::compile notices of tensors and numbers that a function closes over.
#include "compiled_programs.h"

namespace saker::testing {
namespace {

TEST(CompileClosedOver, CurrentDataIsUsed) {
  Tensor weight = torch::ones({3});
  auto compiled = compileAll([&](const Tensor& x) { return x * weight; });
  for (int i = 0; i < 3; ++i) {
    weight.fill_(i);
    expectSame(compiled(torch::ones({3})), torch::full({3}, static_cast<double>(i)), "result");
  }
  EXPECT_EQ(compiled.stats().variants, 1U);
}

TEST(CompileClosedOver, RequiresGradIsFlipped) {
  Tensor weight = torch::ones({3});
  auto compiled = compileAll([&](const Tensor& x) { return x * weight; });
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
  auto compiled = compileAll(program);
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
  auto compiled = compileAll([&](const Tensor& x) { return x * weight; });
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
  auto compiled = compileAll([&](const Tensor& x) { return x * weight; }, options);
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
  auto compiled = compileAll([&](const Tensor& x) { return x * factor; }, options);
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
  auto compiled = compileAll(product);
  auto writing = compileAll(writes);
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
  auto compiled = compileAll([&](const Tensor& x) { return x * weight; });
  compiled(torch::ones({3})).sum().backward();
  EXPECT_TRUE(weight.grad().equal(torch::ones({3})));
  weight.register_hook([](const Tensor& gradient) { return gradient * 5; });
  weight.mutable_grad() = Tensor();
  compiled(torch::ones({3})).sum().backward();
  EXPECT_TRUE(weight.grad().equal(torch::full({3}, 5.0)));
}

}  // namespace
}  // namespace saker::testing
