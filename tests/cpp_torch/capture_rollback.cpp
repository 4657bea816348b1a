// Bodies that fail, in every way that one can: nothing is left of them, and recording goes on.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/add.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>

#include <stdexcept>

#include "capture/deferred.h"
#include "capture/errors.h"
#include "capture/undo.h"
#include "recordings.h"

namespace saker::tracing::testing {
namespace {

class FailedBody : public ::testing::TestWithParam<By> {};
INSTANTIATE_TEST_SUITE_P(Capture, FailedBody, ::testing::Values(By::Tape, By::Capture),
                         [](const auto& each) { return each.param == By::Tape ? "OnTape" : "InCapture"; });

using Inside = std::function<void(Recording& inside, const at::Tensor& parameter)>;

// All that can be seen of a recording: its text, its guards, how much it holds.
std::string stateOf(Recording& recording) {
  std::string text = textOf(recording) + recording.context()->symbols().guardsText();
  text += std::to_string(recording.kept().size()) + " kept, " + std::to_string(recording.graph().valueLimit()) +
          " values, " + std::to_string(recording.graph().nodeLimit()) + " nodes, ";
  if (auto* trace = dynamic_cast<Trace*>(&recording)) {
    text += std::to_string(trace->inputs().size()) + " inputs, " + std::to_string(trace->undo().leaves().size()) +
            " leaves" + (trace->refused() ? ", refused" : "");
  } else {
    auto& tape = static_cast<Tape&>(recording);
    text += std::to_string(tape.inputs().size()) + " inputs" + (tape.spoiled() ? ", spoiled" : "");
  }
  return text;
}

// Opens a body that ends in an exception.
void failIn(Recording& outer, const at::Tensor& given, const Inside& inside) {
  OpenNode node(outer, ops::find("saker::loop"), 1);
  Body body(outer, node.region(0));
  body.addNumber();
  inside(body.trace(), body.addParameter(outer.valueOf(given)->tensor()));
  body.finish({});
  throw std::logic_error("the body did not fail");
}

// The program before and behind it is as if it had not been.
std::shared_ptr<runtime::Program> expectNothingLeft(By by, const Inside& inside) {
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    at::Tensor before = given[0].sin();
    outer.valueOf(before);
    std::string state = stateOf(outer);
    uint32_t version = before._version(), versionGiven = given[0]._version();
    EXPECT_THROW(failIn(outer, before, [&](Recording& trace, const at::Tensor& x) { inside(trace, x); }),
                 std::runtime_error);
    EXPECT_EQ(stateOf(outer), state);
    EXPECT_EQ(before._version(), version);
    EXPECT_EQ(given[0]._version(), versionGiven);
    return {before * 2 + given[0], given[0].cos()};
  };
  std::shared_ptr<runtime::Program> recorded = recordProgram(by, program, {at::ones({3})});
  at::Tensor x = at::ones({3}) * 4;
  expectEqual(runProgram(*recorded, {x}), {x.sin() * 2 + x, x.cos()});
  auto plain = [&](Recording&, const Tensors& given) -> Tensors {
    at::Tensor before = given[0].sin();
    return {before * 2 + given[0], given[0].cos()};
  };
  EXPECT_EQ(ir::print(*recorded->graph), ir::print(*recordProgram(by, plain, {at::ones({3})})->graph));
  EXPECT_EQ(recorded->argumentWrites, std::vector<uint32_t>{0});
  return recorded;
}

TEST_P(FailedBody, RaisesInTheMiddle) {
  expectNothingLeft(GetParam(), [](Recording&, const at::Tensor& x) {
    at::Tensor made = x.sin() + at::ones({3});
    made.mul_(2);
    throw std::runtime_error("in the middle");
  });
}

TEST_P(FailedBody, ReadsData) {
  expectNothingLeft(GetParam(), [](Recording&, const at::Tensor& x) { x.sum().item(); });
}

// What was refused is refused, even where the program goes on.
TEST_P(FailedBody, CatchesTheRefusal) {
  expectNothingLeft(GetParam(), [](Recording&, const at::Tensor& x) {
    try {
      x.sum().item();
    } catch (const std::exception&) {
    }
    x.sin();
  });
}

TEST_P(FailedBody, MeetsInputsAndLiterals) {
  at::Tensor closed = at::ones({3}), leaf = at::ones({3}).set_requires_grad(true), literal = at::zeros({3});
  expectNothingLeft(GetParam(), [&](Recording& inside, const at::Tensor& x) {
    at::Tensor sum = x + closed * leaf + closed;
    ir::Value* value = inside.addLiteral(literal);
    EXPECT_TRUE(inside.literalData(value).equal(literal));
    throw std::runtime_error("after inputs were met");
  });
  EXPECT_FALSE(leaf.grad().defined());
}

TEST_P(FailedBody, WritesToWhatIsAround) {
  at::Tensor closed = at::ones({3});
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    at::Tensor made = given[0] * 2;
    outer.valueOf(made);
    std::string state = stateOf(outer);
    auto versions = [&] { return std::vector<int64_t>{made._version(), given[0]._version(), closed._version()}; };
    std::vector<int64_t> before = versions();
    EXPECT_THROW(failIn(outer, made,
                        [&](Recording&, const at::Tensor& x) {
                          made.add_(x);
                          given[0].select(0, 0).mul_(3);
                          closed.add_(made);
                          EXPECT_EQ(versions(), (std::vector<int64_t>{before[0] + 1, before[1] + 1, before[2] + 1}));
                          throw std::runtime_error("after writes");
                        }),
                 std::runtime_error);
    EXPECT_EQ(versions(), before);
    EXPECT_EQ(stateOf(outer), state);
    return {made + 1};
  };
  std::shared_ptr<runtime::Program> recorded = recordProgram(GetParam(), program, {at::ones({3})});
  EXPECT_EQ(recorded->argumentWrites, std::vector<uint32_t>{0});
  EXPECT_TRUE(closed.equal(at::ones({3})));
  expectEqual(runProgram(*recorded, {at::ones({3}) * 5}), {at::ones({3}) * 11});
}

TEST_P(FailedBody, WritesToTensorsWithHistory) {
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    at::Tensor made = given[0] * 2;
    auto history = made.grad_fn();
    EXPECT_NE(history, nullptr);
    EXPECT_THROW(failIn(outer, made,
                        [&](Recording&, const at::Tensor& x) {
                          made.add_(x.sin());
                          EXPECT_NE(made.grad_fn(), history);
                          throw std::runtime_error("after a write");
                        }),
                 std::runtime_error);
    EXPECT_EQ(made.grad_fn(), history);
    return {made + 1};
  };
  recordProgram(GetParam(), program, {at::ones({3}).set_requires_grad(true)});
}

// `.data` of a tensor is a detach that the recording around appends when a body uses it; on a tape, it stops.
TEST_P(FailedBody, UsesDataOfWhatIsAround) {
  bool fails = true;
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    at::Tensor made = given[0] * 2, data = made.variable_data();
    outer.valueOf(made);
    if (!fails) return {GetParam() == By::Tape ? made + 1 : data + 1};
    std::string state = stateOf(outer);
    EXPECT_THROW(failIn(outer, made,
                        [&](Recording&, const at::Tensor& x) {
                          at::Tensor sum = x + data;
                          EXPECT_NE(stateOf(outer), state);
                          throw std::runtime_error("after .data");
                        }),
                 std::runtime_error);
    EXPECT_EQ(stateOf(outer), state);
    return {GetParam() == By::Tape ? made + 1 : data + 1};
  };
  std::shared_ptr<runtime::Program> recorded = recordProgram(GetParam(), program, {at::ones({3})});
  expectEqual(runProgram(*recorded, {at::ones({3}) * 2}), {at::ones({3}) * 5});
  fails = false;
  EXPECT_EQ(ir::print(*recorded->graph), ir::print(*recordProgram(GetParam(), program, {at::ones({3})})->graph));
}

TEST_P(FailedBody, KeepsObjects) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  expectNothingLeft(GetParam(), [&](Recording& inside, const at::Tensor& x) {
    at::Tensor drawn = x.bernoulli(0.5, generator);
    EXPECT_EQ(inside.kept().size(), 1u);
    throw std::runtime_error("after a generator was kept");
  });
}

TEST_P(FailedBody, GivesOtherGeometryToWhatIsAround) {
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    at::Tensor made = given[0] * 2;
    std::string state = stateOf(outer);
    EXPECT_THROW(failIn(outer, made, [&](Recording&, const at::Tensor&) { made.t_(); }), std::runtime_error);
    EXPECT_TRUE(made.sizes() == c10::IntArrayRef({2, 3}));
    EXPECT_THROW(failIn(outer, made, [&](Recording&, const at::Tensor&) { made.as_strided_({2, 3}, {1, 2}); }),
                 std::runtime_error);
    EXPECT_TRUE(made.strides() == c10::IntArrayRef({3, 1}));
    EXPECT_EQ(stateOf(outer), state);
    return {made + 1};
  };
  std::shared_ptr<runtime::Program> recorded = recordProgram(GetParam(), program, {at::ones({2, 3})});
  expectEqual(runProgram(*recorded, {at::ones({2, 3})}), {at::ones({2, 3}) * 3});
}

// A body in a body in a body: those around the one that fails go too, or go on without it.
TEST_P(FailedBody, OfSeveralLevels) {
  at::Tensor closed = at::ones({3});
  for (size_t goesOnAt = 0; goesOnAt < 3; ++goesOnAt) {
    auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
      at::Tensor top = given[0].sin();
      outer.valueOf(top);
      // Opens a body at each level; the last one raises, and the level `goesOnAt` catches it.
      std::function<at::Tensor(Recording&, const at::Tensor&, size_t)> level = [&](Recording& around,
                                                                                   const at::Tensor& x, size_t depth) {
        at::Tensor made = x + top;
        if (depth == 3) {
          made = made * closed;
          throw std::runtime_error("at the bottom");
        }
        std::string state = stateOf(around);
        try {
          ir::Value* value = around.valueOf(made);
          OpenNode node(around, ops::find("saker::loop"), 1);
          Body body(around, node.region(0));
          body.addNumber();
          c10::IValue results[] = {true, level(body.trace(), body.addParameter(value->tensor()), depth + 1)};
          body.finish(results);
          const ir::Arg args[] = {ir::Arg::integer(2), ir::Arg::boolean(true), ir::Arg::value(value)};
          const ir::Type* type = value->type();
          made = resultOf(around, node.append(args, {&type, 1}), 0, made);
        } catch (const std::runtime_error&) {
          if (depth != goesOnAt) throw;
          EXPECT_EQ(stateOf(around), state);
          made = made * 3;
        }
        return made + x;
      };
      return {level(outer, given[0], 0)};
    };
    auto eager = [&](const at::Tensor& given) {
      at::Tensor top = given.sin();
      std::function<at::Tensor(const at::Tensor&, size_t)> level = [&](const at::Tensor& x, size_t depth) {
        at::Tensor made = x + top;
        if (depth == goesOnAt) return made * 3 + x;
        for (int i = 0; i < 2; ++i) made = level(made, depth + 1);
        return made + x;
      };
      return level(given, 0);
    };
    std::shared_ptr<runtime::Program> recorded = recordProgram(GetParam(), program, {at::ones({3})});
    EXPECT_EQ(recorded->graph->top()->parameters().size(), 1u);  // `closed` is no input
    at::Tensor x = at::ones({3}) * 0.25;
    expectEqual(runProgram(*recorded, {x}), {eager(x)});
  }
}

TEST_P(FailedBody, TheSecondOfTwo) {
  auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
    at::Tensor before = given[0].sin();
    ir::Value* value = outer.valueOf(before);
    std::string state = stateOf(outer);
    auto branch = [&] {
      OpenNode node(outer, ops::find("saker::if"), 2);
      {
        Body body(outer, node.region(0));
        const c10::IValue result = body.addParameter(value->tensor()).cos();
        body.finish({&result, 1});
      }
      EXPECT_NE(stateOf(outer), state);
      Body body(outer, node.region(1));
      body.addParameter(value->tensor()).sum().item();
    };
    EXPECT_THROW(branch(), std::runtime_error);
    EXPECT_EQ(stateOf(outer), state);
    return {before + 1};
  };
  std::shared_ptr<runtime::Program> recorded = recordProgram(GetParam(), program, {at::ones({3})});
  expectEqual(runProgram(*recorded, {at::ones({3}) * 2}), {(at::ones({3}) * 2).sin() + 1});
}

// Symbols, guards and facts that a body made, and what the program still holds of them.
TEST(FailedBodySymbols, AreTakenBack) {
  at::Tensor leaked;
  c10::SymInt size;
  at::Tensor x = at::ones({6, 3});
  const DynamicSize dynamic[] = {{0, 0, "n"}};
  Capture capture(Host{}, {&x, 1}, dynamic);
  at::Tensor given = capture.arguments()[0];
  at::Tensor before = given.sin();
  std::string state = stateOf(capture.trace());
  EXPECT_THROW(failIn(capture.trace(), before,
                      [&](Recording&, const at::Tensor& inside) {
                        leaked = inside.nonzero();
                        size = leaked.sym_size(0);
                        EXPECT_TRUE(inside.sym_size(0).sym_gt(4).guard_bool(__FILE__, __LINE__));
                        throw std::runtime_error("after a guard");
                      }),
               std::runtime_error);
  EXPECT_EQ(stateOf(capture.trace()), state);
  EXPECT_THROW(leaked.sin(), std::exception);
  EXPECT_THROW(size.sym_gt(2).guard_bool(__FILE__, __LINE__), std::exception);
  EXPECT_EQ(stateOf(capture.trace()), state);
  const c10::IValue results[] = {before + 1};
  std::unique_ptr<runtime::Program> recorded = capture.finish(results);
  EXPECT_TRUE(recorded->guards().empty());
  at::Tensor smaller = at::ones({3, 3});
  expectEqual(runProgram(*recorded, {smaller}), {smaller.sin() + 1});
}

TEST(FailedBodyDeferred, LeavesWhatIsPending) {
  at::Tensor x = at::ones({3}), closed = at::ones({3}), result;
  {
    DeferredBlock block{Host{}};
    at::Tensor doubled = x * 2;
    Trace& trace = *current();
    std::string state = stateOf(trace);
    int64_t version = x._version();
    // Which memory pending operators read is asked of storages that may be others over the same memory.
    auto isRead = [&](const at::Tensor& tensor) {
      c10::Storage other(c10::Storage::use_byte_size_t(), tensor.nbytes(), at::DataPtr(tensor.data_ptr(), at::kCPU));
      return trace.isInput(other.unsafeGetStorageImpl());
    };
    EXPECT_TRUE(isRead(x));
    EXPECT_THROW(failIn(trace, doubled,
                        [&](Recording&, const at::Tensor& inside) {
                          at::Tensor sum = inside + closed;
                          x.add_(1);
                          doubled.sum().item();
                        }),
                 std::runtime_error);
    EXPECT_EQ(stateOf(trace), state);
    EXPECT_EQ(x._version(), version);
    EXPECT_TRUE(isRead(x));
    EXPECT_FALSE(isRead(closed));
    // Data that is pending cannot be had while a body is recorded.
    EXPECT_THROW(failIn(trace, doubled, [&](Recording&, const at::Tensor&) { trace.flush(); }), std::runtime_error);
    EXPECT_EQ(stateOf(trace), state);
    closed.mul_(4);  // as if it had never been read
    result = doubled + closed;
    block.leave();
  }
  expectEqual({result}, {at::ones({3}) * 6});
}

}  // namespace
}  // namespace saker::tracing::testing
