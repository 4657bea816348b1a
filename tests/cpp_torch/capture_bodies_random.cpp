// Random programs with branches and loops in each other, in which random bodies fail: recorded by a tape or a capture,
// they do on other data what the same program does when it is simply run.
#include <ATen/ops/add.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sin.h>

#include <random>
#include <stdexcept>

#include "recordings.h"

namespace saker::tracing::testing {
namespace {

constexpr size_t kMaxDepth = 3;

struct Step {
  enum Kind { Add, Scale, Cos, Closed, Write, Loop, If, Fails } kind;
  size_t a = 0, b = 0;  // which of the tensors there are
  int64_t trips = 0;
  std::vector<Step> bodies[2];
};

std::vector<Step> makeSteps(std::mt19937& random, size_t depth) {
  std::vector<Step> steps(2 + random() % 4);
  for (Step& step : steps) {
    step.kind = static_cast<Step::Kind>(random() % (depth < kMaxDepth ? 8 : 5));
    step.a = random();
    step.b = random();
    step.trips = static_cast<int64_t>(random() % 3);
    if (step.kind >= Step::Loop) {
      for (std::vector<Step>& body : step.bodies) body = makeSteps(random, depth + 1);
    }
  }
  return steps;
}

// Runs the steps, in a recording or without one (nullptr).
class Interpreter {
 public:
  Interpreter(at::Tensor closed) : closed_(std::move(closed)) {}

  // `around` are the tensors of the levels around, the last one the parameter of this body.
  at::Tensor run(const std::vector<Step>& steps, std::vector<at::Tensor> around, Recording* recording) {
    std::vector<at::Tensor>& all = around;
    size_t own = all.size();
    all.push_back(all.back().sin());
    for (const Step& step : steps) {
      const at::Tensor a = all[step.a % all.size()], b = all[step.b % all.size()];
      switch (step.kind) {
        case Step::Add:
          all.push_back(a + b);
          break;
        case Step::Scale:
          all.push_back(a * 0.5);
          break;
        case Step::Cos:
          all.push_back(a.cos());
          break;
        case Step::Closed:
          all.push_back(a * closed_);
          break;
        case Step::Write:  // to a tensor that an operator made at this level
          all[own].add_(b);
          break;
        case Step::Loop:
          all.push_back(recording ? recordLoop(step, a, all, *recording) : runLoop(step, a, all));
          break;
        case Step::If:
          all.push_back(recording ? recordIf(step, a, b, all, *recording) : runIf(step, a, b, all));
          break;
        case Step::Fails:
          if (recording) recordFailure(step, all, *recording);
          break;
      }
    }
    return all.back().sin();
  }

 private:
  static std::vector<at::Tensor> with(std::vector<at::Tensor> all, const at::Tensor& parameter) {
    all.push_back(parameter);
    return all;
  }

  at::Tensor runLoop(const Step& step, at::Tensor carried, const std::vector<at::Tensor>& all) {
    for (int64_t i = 0; i < step.trips; ++i) carried = run(step.bodies[0], with(all, carried), nullptr);
    return carried.cos();
  }
  at::Tensor runIf(const Step& step, const at::Tensor& a, const at::Tensor& b, const std::vector<at::Tensor>& all) {
    return run(step.bodies[a.sum().item<float>() > 0 ? 0 : 1], with(all, b), nullptr).cos();
  }

  void recordBody(const std::vector<Step>& steps, Recording& outer, ir::Region* region, ir::Value* parameter,
                  const std::vector<at::Tensor>& all) {
    Body body(outer, region);
    std::vector<c10::IValue> results;
    if (region->owner()->regions().size() == 1) {
      body.addNumber();
      results.emplace_back(true);
    }
    results.emplace_back(run(steps, with(all, body.addParameter(parameter->tensor())), &body.trace()));
    body.finish(results);
  }

  // On a tape, the node is run where it is appended.
  at::Tensor gives(Recording& outer, ir::Node* node, const std::function<at::Tensor()>& computed) {
    if (dynamic_cast<Trace*>(&outer)) return resultOf(outer, node, 0, {});
    TapeScope untaped(nullptr);
    return resultOf(outer, node, 0, computed());
  }

  at::Tensor recordLoop(const Step& step, const at::Tensor& carried, const std::vector<at::Tensor>& all,
                        Recording& outer) {
    ir::Value* given = outer.valueOf(carried);
    OpenNode node(outer, ops::find("saker::loop"), 1);
    recordBody(step.bodies[0], outer, node.region(0), given, all);
    const ir::Arg args[] = {ir::Arg::integer(step.trips), ir::Arg::boolean(true), ir::Arg::value(given)};
    const ir::Type* type = given->type();
    ir::Node* appended = node.append(args, {&type, 1});
    auto computed = [&] {
      at::Tensor real = carried;
      for (int64_t i = 0; i < step.trips; ++i) real = run(step.bodies[0], with(all, real), nullptr);
      return step.trips ? real : real.alias();
    };
    return gives(outer, appended, computed).cos();
  }

  at::Tensor recordIf(const Step& step, const at::Tensor& a, const at::Tensor& b, const std::vector<at::Tensor>& all,
                      Recording& outer) {
    at::Tensor condition = a.sum() > 0;
    ir::Value *asked = outer.valueOf(condition), *given = outer.valueOf(b);
    OpenNode node(outer, ops::find("saker::if"), 2);
    for (size_t i = 0; i < 2; ++i) recordBody(step.bodies[i], outer, node.region(i), given, all);
    const ir::Arg args[] = {ir::Arg::value(asked), ir::Arg::value(given)};
    const ir::Type* type = given->type();
    ir::Node* appended = node.append(args, {&type, 1});
    auto computed = [&] { return run(step.bodies[condition.item<bool>() ? 0 : 1], with(all, b), nullptr); };
    return gives(outer, appended, computed).cos();
  }

  void recordFailure(const Step& step, const std::vector<at::Tensor>& all, Recording& outer) {
    std::string before = textOf(outer);
    ir::Value* given = outer.valueOf(all.front());
    auto fails = [&] {
      OpenNode node(outer, ops::find("saker::if"), 2);
      recordBody(step.bodies[0], outer, node.region(0), given, all);
      Body body(outer, node.region(1));
      at::Tensor result = run(step.bodies[1], with(all, body.addParameter(given->tensor())), &body.trace());
      all[step.a % all.size()].add_(result);
      throw std::runtime_error("fails");
    };
    EXPECT_THROW(fails(), std::runtime_error);
    EXPECT_EQ(textOf(outer), before);
  }

  at::Tensor closed_;
};

class RandomBodies : public ::testing::TestWithParam<By> {};
INSTANTIATE_TEST_SUITE_P(Capture, RandomBodies, ::testing::Values(By::Tape, By::Capture),
                         [](const auto& each) { return each.param == By::Tape ? "OnTape" : "InCapture"; });

TEST_P(RandomBodies, DoOnOtherDataWhatTheProgramDoes) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::vector<Step> steps = makeSteps(random, 0);
    at::Tensor closed = at::full({3}, 0.75);
    Interpreter interpreter(closed);
    auto program = [&](Recording& outer, const Tensors& given) -> Tensors {
      return {interpreter.run(steps, given, &outer)};
    };
    Tensors first{at::full({3}, 0.5), at::full({3}, -0.25)};
    if (GetParam() == By::Tape) first.push_back(closed);  // on a tape, all inputs are arguments
    std::shared_ptr<runtime::Program> recorded = recordProgram(GetParam(), program, first);
    for (double sign : {1.0, -1.0}) {
      Tensors given{at::full({3}, 0.3 * sign), at::full({3}, 1.7 * sign)};
      if (GetParam() == By::Tape) given.push_back(closed);
      at::Tensor expected = interpreter.run(steps, given, nullptr);
      expectEqual(runProgram(*recorded, given), {expected});
    }
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << ir::print(*recorded->graph);
  }
}

}  // namespace
}  // namespace saker::tracing::testing
