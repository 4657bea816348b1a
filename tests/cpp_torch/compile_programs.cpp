// saker::compile on programs of all kinds: results, gradients, writes, aliases and random numbers are eager mode's.
#include "compiled_programs.h"

namespace saker::testing {
namespace {

struct Case {
  const char* name;
  Program program;
  std::vector<std::vector<int64_t>> inputs;  // sizes
  std::vector<std::vector<int64_t>> closed = {};
  std::vector<size_t> plain = {};  // inputs that do not require grad
  bool closedRequireGrad = true;
  bool eager = false;  // it cannot be compiled
  bool twice = true;   // it has a second derivative
  bool setsGradients = false;
  bool eagerWithGradients = false;  // it can be compiled only where nothing is differentiated
};

std::ostream& operator<<(std::ostream& out, const Case& each) { return out << each.name; }

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"Linear",
       [](const Tensors& in, const Tensors& own) { return Tensors{torch::gelu(torch::linear(in[0], own[0], own[1]))}; },
       {{4, 3}},
       {{5, 3}, {5}}},
      {"NoGradients",
       [](const Tensors& in, const Tensors&) { return Tensors{in[0].sin() + in[1]}; },
       {{4}, {4}},
       {},
       {0, 1}},
      {"OnlyClosedRequiresGrad",
       [](const Tensors& in, const Tensors& own) { return Tensors{in[0] * own[0]}; },
       {{4}},
       {{4}},
       {0}},
      {"WritesInput",
       [](const Tensors& in, const Tensors&) { return Tensors{in[0].mul_(2).add_(1).sum()}; },
       {{4}},
       {},
       {0}},
      {"WritesThroughView",
       [](const Tensors& in, const Tensors&) {
         in[0].select(0, 1).fill_(3);
         return Tensors{in[0] * in[1]};
       },
       {{4, 2}, {2}},
       {},
       {0}},
      {"WritesResultOfGradient",
       [](const Tensors& in, const Tensors&) {
         Tensor x = in[0] * 2;
         x.mul_(in[0]);
         return Tensors{x};
       },
       {{3}}},
      {"HistoryOfWrittenInput",
       [](const Tensors& in, const Tensors&) {
         in[0].mul_(in[1]);
         return Tensors{in[1] * 2};
       },
       {{3}, {3}},
       {},
       {0}},
      // Its backward is not cut into stages, and eager mode runs (docs/aot.md).
      {"ResultDependsOnWrittenInput",
       [](const Tensors& in, const Tensors&) {
         in[0].mul_(in[1]);
         return Tensors{in[0] + 1};
       },
       {{3}, {3}},
       {},
       {0},
       true,
       false,
       true,
       false,
       true},
      {"WritesClosed",
       [](const Tensors& in, const Tensors& own) {
         own[0].mul_(0.9).add_(in[0].detach(), 0.1);
         return Tensors{in[0] - own[0]};
       },
       {{3}},
       {{3}},
       {},
       false},
      {"GivesInput", [](const Tensors& in, const Tensors&) { return Tensors{in[0], in[0] + 1}; }, {{3}}},
      {"GivesViewOfInput",
       [](const Tensors& in, const Tensors&) { return Tensors{in[0].t(), in[0].select(0, 0)}; },
       {{3, 2}}},
      {"GivesViews",
       [](const Tensors& in, const Tensors&) {
         std::vector<Tensor> parts = in[0].exp().chunk(2);
         return Tensors{parts[0], parts[1]};
       },
       {{4, 2}}},
      {"GivesClosed",
       [](const Tensors& in, const Tensors& own) { return Tensors{own[0], in[0] + own[0]}; },
       {{3}},
       {{3}}},
      {"GivesTheSameTwice",
       [](const Tensors& in, const Tensors&) {
         Tensor x = in[0].sin();
         return Tensors{x, x};
       },
       {{3}}},
      {"GivesUndefined", [](const Tensors& in, const Tensors&) { return Tensors{Tensor(), in[0].cos()}; }, {{3}}},
      {"GivesNothing",
       [](const Tensors& in, const Tensors&) {
         in[0].zero_();
         return Tensors{};
       },
       {{3}},
       {},
       {0}},
      {"ResultsDependOnEachOther",
       [](const Tensors& in, const Tensors& own) {
         Tensor hidden = torch::tanh(torch::mm(in[0], own[0]));
         return Tensors{hidden.square().mean(), hidden};
       },
       {{4, 3}},
       {{3, 2}}},
      {"DetachAndNoGrad",
       [](const Tensors& in, const Tensors&) {
         Tensor scale;
         {
           torch::NoGradGuard off;
           scale = in[0].abs().max();
         }
         return Tensors{in[0] / scale, in[0].detach() * 2};
       },
       {{5}}},
      {"Dropout", [](const Tensors& in, const Tensors&) { return Tensors{torch::dropout(in[0], 0.5, true)}; }, {{20}}},
      {"RandomNumbers",
       [](const Tensors& in, const Tensors&) { return Tensors{in[0] + torch::randn({6}), torch::rand_like(in[0])}; },
       {{6}}},
      {"Literals",
       [](const Tensors& in, const Tensors&) {
         return Tensors{in[0] * torch::tensor({1.0F, 2.0F, 3.0F}) + torch::arange(3)};
       },
       {{3}}},
      {"NormAndSoftmax",
       [](const Tensors& in, const Tensors& own) {
         return Tensors{torch::softmax(torch::layer_norm(in[0], {6}, own[0], own[1]), -1)};
       },
       {{4, 6}},
       {{6}, {6}}},
      {"Convolution",
       [](const Tensors& in, const Tensors& own) {
         return Tensors{torch::max_pool2d(torch::relu(torch::conv2d(in[0], own[0], own[1], 1, 1)), 2)};
       },
       {{2, 3, 8, 8}},
       {{4, 3, 3, 3}, {4}}},
      {"Attention",
       [](const Tensors& in, const Tensors&) {
         return Tensors{torch::scaled_dot_product_attention(in[0], in[1], in[2])};
       },
       {{1, 2, 5, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}},
       {},
       {},
       true,
       false,
       false},
      {"IndexAndWhere",
       [](const Tensors& in, const Tensors&) {
         Tensor picked = in[0].index_select(0, torch::arange(2));
         return Tensors{torch::where(picked > 0, picked, picked * 0.1)};
       },
       {{4, 3}}},
      {"LeafOfItsOwn",
       [](const Tensors& in, const Tensors&) {
         Tensor leaf = torch::ones({3}, torch::requires_grad());
         return Tensors{in[0] * 2, leaf};
       },
       {{3}}},
      {"ReadsData",
       [](const Tensors& in, const Tensors&) { return Tensors{in[0] * in[0].sum().item<double>()}; },
       {{3}},
       {},
       {},
       true,
       true},
      {"ReadsDataOfClosed",
       [](const Tensors& in, const Tensors& own) { return Tensors{in[0] * own[0].detach().max().item<double>()}; },
       {{3}},
       {{4}},
       {},
       true,
       true},
      {"ReadsMemory",
       [](const Tensors& in, const Tensors&) { return Tensors{in[0] * in[0].data_ptr<float>()[0]}; },
       {{3}},
       {},
       {},
       true,
       true},
      {"SetsGradients",
       [](const Tensors& in, const Tensors& own) {
         (in[0].detach() * own[0]).sum().backward();
         return Tensors{in[0] * 2};
       },
       {{3}},
       {{3}},
       {},
       true,
       true,
       true,
       true},
  };
  return all;
}

class CompilePrograms : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Api, CompilePrograms, ::testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

Tensors inputsOf(const Case& given) {
  Tensors inputs;
  for (size_t i = 0; i < given.inputs.size(); ++i) {
    bool plain = std::find(given.plain.begin(), given.plain.end(), i) != given.plain.end();
    inputs.push_back(torch::randn(given.inputs[i]).set_requires_grad(!plain));
  }
  return inputs;
}

Tensors closedOf(const Case& given) {
  Tensors closed;
  for (const std::vector<int64_t>& sizes : given.closed) {
    closed.push_back(torch::randn(sizes).set_requires_grad(given.closedRequireGrad));
  }
  return closed;
}

TEST_P(CompilePrograms, AreEagerMode) {
  const Case& given = GetParam();
  Told told = expectEager(given.program, [&] { return inputsOf(given); }, closedOf(given));
  EXPECT_EQ(told.stats.compiledCalls, given.eager || given.eagerWithGradients ? 0U : 3U) << told.report;
  EXPECT_EQ(told.stats.variants, 1U) << told.report;
  EXPECT_EQ(told.stats.captures, 1U) << told.report;
}

TEST_P(CompilePrograms, AreEagerModeWithoutAutograd) {
  const Case& given = GetParam();
  if (given.setsGradients) GTEST_SKIP() << "there is no backward without autograd";
  torch::NoGradGuard off;
  Told told = expectEager(given.program, [&] { return inputsOf(given); }, closedOf(given));
  EXPECT_EQ(told.stats.compiledCalls, given.eager ? 0U : 3U) << told.report;
}

// A second backward through gradients is eager mode's.
TEST_P(CompilePrograms, DifferentiateTwice) {
  const Case& given = GetParam();
  if (given.plain.size() == given.inputs.size()) GTEST_SKIP() << "there is nothing to differentiate";
  if (!given.twice) GTEST_SKIP() << "PyTorch has no second derivative of it";
  Tensors eagerClosed = closedOf(given), compiledClosed = copiesOf(eagerClosed);
  Compiled compiled = compileAll([&](const Tensors& inputs) { return given.program(inputs, compiledClosed); });
  auto second = [&](const std::function<Tensors(const Tensors&)>& call, const Tensors& inputs) {
    torch::manual_seed(3);
    Tensor loss = torch::zeros({});
    for (const Tensor& result : call(inputs)) {
      if (result.defined() && result.requires_grad()) loss = loss + result.pow(3).sum();
    }
    Tensors wanted;
    for (const Tensor& input : inputs) {
      if (input.requires_grad()) wanted.push_back(input);
    }
    Tensors first = torch::autograd::grad({loss}, wanted, {}, true, true, true);
    Tensor sum = torch::zeros({});
    for (const Tensor& gradient : first) sum = gradient.defined() ? sum + gradient.square().sum() : sum;
    if (!sum.requires_grad()) return first;
    Tensors out = torch::autograd::grad({sum}, wanted, {}, false, false, true);
    out.insert(out.end(), first.begin(), first.end());
    return out;
  };
  for (int i = 0; i < 2; ++i) {
    Tensors inputs = inputsOf(given), copies = copiesOf(inputs);
    Tensors expected = second([&](const Tensors& in) { return given.program(in, eagerClosed); }, inputs);
    Tensors found = second([&](const Tensors& in) { return compiled(in); }, copies);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t k = 0; k < found.size(); ++k) {
      ASSERT_EQ(found[k].defined(), expected[k].defined());
      if (!found[k].defined()) continue;
      EXPECT_TRUE(torch::allclose(found[k], expected[k], 1e-5, 1e-6)) << k;
    }
  }
}

}  // namespace
}  // namespace saker::testing
