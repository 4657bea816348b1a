// Bodies of branches and loops, recorded one level deeper than a tape or a capture: they run as the program says.
#include <ATen/ops/add.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>

#include "capture/deferred.h"
#include "passes/bodies.h"
#include "recordings.h"

namespace saker::tracing::testing {
namespace {

class BodiesBy : public ::testing::TestWithParam<By> {};
INSTANTIATE_TEST_SUITE_P(Capture, BodiesBy, ::testing::Values(By::Tape, By::Capture),
                         [](const auto& each) { return each.param == By::Tape ? "OnTape" : "InCapture"; });

at::Tensor row(std::initializer_list<float> numbers) {
  at::Tensor made = at::ones({static_cast<int64_t>(numbers.size())});
  std::copy(numbers.begin(), numbers.end(), made.mutable_data_ptr<float>());
  return made;
}

using BodyFunction = std::function<at::Tensor(Recording& inside, const at::Tensor& parameter)>;

// results = condition ? yes(operand) : no(operand)
ir::Node* appendIf(Recording& outer, const at::Tensor& condition, const at::Tensor& operand, const BodyFunction& yes,
                   const BodyFunction& no) {
  ir::Value *asked = outer.valueOf(condition), *given = outer.valueOf(operand);
  OpenNode node(outer, ops::find("saker::if"), 2);
  const BodyFunction* functions[] = {&yes, &no};
  const ir::Type* type = nullptr;
  for (size_t i = 0; i < 2; ++i) {
    Body body(outer, node.region(i));
    const c10::IValue result = (*functions[i])(body.trace(), body.addParameter(given->tensor()));
    body.finish({&result, 1});
    type = node.region(i)->terminator()->operand(0)->type();
  }
  const ir::Arg args[] = {ir::Arg::value(asked), ir::Arg::value(given)};
  return node.append(args, {&type, 1});
}

// carried = body(carried), so often
ir::Node* appendLoop(Recording& outer, int64_t trips, const at::Tensor& carried, const BodyFunction& function) {
  ir::Value* given = outer.valueOf(carried);
  OpenNode node(outer, ops::find("saker::loop"), 1);
  {
    Body body(outer, node.region(0));
    body.addNumber();
    const c10::IValue results[] = {true, function(body.trace(), body.addParameter(given->tensor()))};
    body.finish(results);
  }
  const ir::Arg args[] = {ir::Arg::integer(trips), ir::Arg::boolean(true), ir::Arg::value(given)};
  const ir::Type* type = given->type();
  return node.append(args, {&type, 1});
}

TEST_P(BodiesBy, BranchRunsTheBodyThatIsChosen) {
  auto program = [](Recording& outer, const Tensors& given) -> Tensors {
    at::Tensor positive = given[0].sum() > 0, doubled = given[0] * 2;
    ir::Node* node = appendIf(
        outer, positive, doubled, [](Recording&, const at::Tensor& x) { return x.sin() + 1; },
        [](Recording&, const at::Tensor& x) { return x.cos() - 1; });
    return {resultOf(outer, node, 0, doubled.sin() + 1) * 3};
  };
  std::shared_ptr<runtime::Program> recorded = recordProgram(GetParam(), program, {row({1, 2, 3})});
  at::Tensor up = row({4, 5, 6}), down = row({-4, -5, -6});
  expectEqual(runProgram(*recorded, {up}), {((up * 2).sin() + 1) * 3});
  expectEqual(runProgram(*recorded, {down}), {((down * 2).cos() - 1) * 3});
}

TEST_P(BodiesBy, LoopCarriesAndUsesWhatIsAround) {
  at::Tensor closed = row({1, 0, 2});  // met for the first time inside
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    at::Tensor step = given[1].sin();
    ir::Node* node =
        appendLoop(outer, 4, given[0], [&](Recording&, const at::Tensor& x) { return x * step + closed + given[1]; });
    at::Tensor real = given[0];
    if (GetParam() == By::Tape) {
      TapeScope untaped(nullptr);
      for (int i = 0; i < 4; ++i) real = real * step + closed + given[1];
    }
    return {resultOf(outer, node, 0, real), step};
  };
  at::Tensor x = row({1, 2, 3}), y = row({3, 2, 1});
  std::shared_ptr<runtime::Program> recorded = recordProgram(GetParam(), program, {x, y});
  at::Tensor a = row({7, 8, 9}), b = row({0.5, 0.25, 2}), expected = a;
  for (int i = 0; i < 4; ++i) expected = expected * b.sin() + closed + b;
  Tensors arguments{a, b};
  if (GetParam() == By::Tape) arguments.push_back(closed);  // a tape's inputs are all arguments
  expectEqual(runProgram(*recorded, arguments), {expected, b.sin()});
}

// At every level: a tensor of each level around, one from outside of the program, and a literal number.
TEST_P(BodiesBy, ThreeLevelsUseTensorsOfEveryLevel) {
  at::Tensor closed = row({0.5, 1, 2});
  std::vector<size_t> outside;
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    at::Tensor zero = given[0] + given[1], condition = given[1].sum() > 0;
    ir::Node* node = appendLoop(outer, 2, zero, [&](Recording& first, const at::Tensor& one) {
      at::Tensor made = one.sin();
      ir::Node* branch = appendIf(
          first, condition, made,
          [&](Recording& second, const at::Tensor& two) {
            at::Tensor deeper = two * one;
            ir::Node* inner = appendLoop(second, 3, deeper, [&](Recording&, const at::Tensor& three) {
              return three * 0.5 + two + made + one + zero + given[0] + closed;
            });
            outside.push_back(passes::outerValues(*inner->regions()[0]).size());
            return resultOf(second, inner, 0, {}) + closed;
          },
          [&](Recording&, const at::Tensor& two) { return two - zero; });
      outside.push_back(passes::outerValues(*branch->regions()[0]).size());
      return resultOf(first, branch, 0, {}).cos();
    });
    outside.push_back(passes::outerValues(*node->regions()[0]).size());
    return {resultOf(outer, node, 0, zero.clone())};
  };
  auto eager = [&](const at::Tensor& x, const at::Tensor& y) {
    at::Tensor zero = x + y, carried = zero;
    for (int i = 0; i < 2; ++i) {
      at::Tensor one = carried, made = one.sin(), two = made, chosen;
      if (y.sum().item<float>() > 0) {
        at::Tensor three = two * one;
        for (int k = 0; k < 3; ++k) three = three * 0.5 + two + made + one + zero + x + closed;
        chosen = three + closed;
      } else {
        chosen = two - zero;
      }
      carried = chosen.cos();
    }
    return carried;
  };
  std::shared_ptr<runtime::Program> recorded =
      recordProgram(GetParam(), program, {row({1, 2, 3}), row({0.1f, 0.2f, 0.3f})});
  // two, made, one, zero, the argument, closed; without two; without two, made and one, but with the condition
  EXPECT_EQ(outside, (std::vector<size_t>{6, 5, 4}));
  for (float sign : {1.0f, -1.0f}) {
    at::Tensor x = row({3, -1, 2}), y = row({2 * sign, sign, sign});
    Tensors arguments{x, y};
    if (GetParam() == By::Tape) arguments.push_back(closed);
    expectEqual(runProgram(*recorded, arguments), {eager(x, y)});
  }
}

TEST_P(BodiesBy, OuterValuesAreInOrderOfTheirFirstUseOnceEach) {
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    at::Tensor a = given[0].sin(), b = given[0].cos(), c = given[0] * 3;
    ir::Node* node = appendLoop(outer, 1, given[0], [&](Recording& first, const at::Tensor& x) {
      at::Tensor sum = x + c;
      ir::Node* inner = appendLoop(first, 1, sum, [&](Recording&, const at::Tensor& y) { return y + a + c + x; });
      return resultOf(first, inner, 0, {}) + b + a;
    });
    std::vector<ir::Value*> expected{outer.valueOf(c), outer.valueOf(a), outer.valueOf(b)};
    EXPECT_EQ(passes::outerValues(*node->regions()[0]), expected);
    return {resultOf(outer, node, 0, given[0].clone())};
  };
  recordProgram(GetParam(), program, {row({1, 2})});
}

TEST_P(BodiesBy, LiteralsAndFactoriesInBodies) {
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    ir::Node* node = appendIf(
        outer, given[0].sum() > 0, given[0], [](Recording&, const at::Tensor& x) { return x + at::ones({2}) * 5; },
        [](Recording&, const at::Tensor& x) { return at::where(x > -1, x, x.new_zeros({2})); });
    return {resultOf(outer, node, 0, given[0] + 5)};
  };
  std::shared_ptr<runtime::Program> recorded = recordProgram(GetParam(), program, {row({1, 2})});
  expectEqual(runProgram(*recorded, {row({3, 4})}), {row({8, 9})});
  expectEqual(runProgram(*recorded, {row({-0.5, -4})}), {row({-0.5, 0})});
}

// A write inside of a body, to a tensor that the body made and through a view of it.
TEST_P(BodiesBy, WritesInsideOfABody) {
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    ir::Node* node = appendLoop(outer, 2, given[0], [](Recording&, const at::Tensor& x) {
      at::Tensor made = x + 1;
      made.select(0, 0).mul_(10);
      made.add_(x);
      return made;
    });
    return {resultOf(outer, node, 0, given[0].clone())};
  };
  std::shared_ptr<runtime::Program> recorded = recordProgram(GetParam(), program, {row({1, 2})});
  at::Tensor expected = row({3, 4});
  for (int i = 0; i < 2; ++i) expected = (expected + 1) * row({10, 1}) + expected;
  expectEqual(runProgram(*recorded, {row({3, 4})}), {expected});
}

TEST_P(BodiesBy, OperatorsInBodiesKeepTheirModes) {
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    ir::Node* node = appendLoop(outer, 1, given[0], [](Recording&, const at::Tensor& x) {
      at::Tensor with = x.sin();
      c10::NoGradGuard off;
      return with.cos();
    });
    const ir::Node* first = node->regions()[0]->first();
    EXPECT_FALSE(first->attributes().noGrad);
    EXPECT_TRUE(first->next()->attributes().noGrad);
    return {resultOf(outer, node, 0, given[0].clone())};
  };
  recordProgram(GetParam(), program, {row({1, 2})});
}

// What was made in a body has no data and no place outside of it.
TEST(Bodies, TensorsThatLeaveABodyRaise) {
  at::Tensor kept;
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    appendLoop(outer, 1, given[0], [&](Recording&, const at::Tensor& x) { return kept = x.sin(); });
    EXPECT_THROW(kept + 1, std::exception);
    return {given[0] + 1};
  };
  std::shared_ptr<runtime::Program> recorded = recordProgram(By::Capture, program, {row({1, 2})});
  expectEqual(runProgram(*recorded, {row({3, 4})}), {row({4, 5})});
  EXPECT_THROW(kept + 1, std::exception);
}

TEST(DeferredBodies, ABodyWaitsLikeAnyOperator) {
  at::Tensor x = row({1, 2, 3}), chosen, part, result;
  {
    DeferredBlock block{Host{}};
    at::Tensor doubled = x * 2, condition = x.sum() > 0;
    Trace& trace = *current();
    ir::Node* node = appendIf(
        trace, condition, doubled, [&](Recording&, const at::Tensor& t) { return t.sin() + x; },
        [](Recording&, const at::Tensor& t) { return t.cos(); });
    chosen = resultOf(trace, node, 0, {});
    part = chosen.select(0, 1);
    result = chosen + 1;
    chosen.mul_(2);
    EXPECT_GT(block.pending(), 0u);
    block.leave();
  }
  at::Tensor expected = (x * 2).sin() + x;
  expectEqual({chosen, part, result}, {expected * 2, (expected * 2).select(0, 1), expected + 1});
  EXPECT_TRUE(part.is_alias_of(chosen));
}

}  // namespace
}  // namespace saker::tracing::testing
