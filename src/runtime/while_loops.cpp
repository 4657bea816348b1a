// Loops whose end a condition decides, and the way back through their steps.
#include "aten/on_copies.h"
#include "ops/control_flow.h"
#include "runtime/executable.h"
#include "runtime/loop_values.h"

namespace saker::runtime {

namespace {

constexpr size_t kStepsBetweenChecks = 256;

Values together(Values left, const Values& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// Takes those from `count` on.
Values takeFrom(Values& values, size_t count) {
  auto first = values.begin() + static_cast<std::ptrdiff_t>(count);
  Values taken(std::make_move_iterator(first), std::make_move_iterator(values.end()));
  values.erase(first, values.end());
  return taken;
}

}  // namespace

// Runs the condition and the step in turns. `history`, if given, gets what was carried into each step but the first,
// and what steps give besides.
std::vector<c10::IValue> Run::repeat(const Instruction& at, const Values& initial, const Values& closed,
                                     History* history) {
  const Body &condition = at.bodies[0], &step = at.bodies[1];
  Values values = initial;
  aten::WriteMeter unmeasured;  // what a body writes is its own
  auto runBody = [&](const Body& body) {
    Values given = together(values, closed);
    enter(body, 0, given);
    runRange(body.begin, body.end);
  };
  for (size_t steps = 0;; ++steps) {
    if (steps % kStepsBetweenChecks == kStepsBetweenChecks - 1) checkInterruption();
    runBody(condition);
    if (!truthOf(condition.returned[0])) return values;
    if (history) {
      if (steps) history->carried.push_back(values);
      history->steps = static_cast<int64_t>(steps) + 1;
    }
    runBody(step);
    values = leave(step);
    Values besides = takeFrom(values, initial.size());
    if (history) history->kept.push_back(std::move(besides));
  }
}

void Run::whileLoop(const Instruction& at) {
  const Values initial = valuesOf(at.node->arg(ops::kWhileCarried));
  const Values closed = valuesOf(at.node->arg(ops::kWhileClosed));
  bool keeps = at.results.size() > initial.size() && at.results.back().value->hasUses();
  History history;
  Values values = repeat(at, initial, closed, keeps ? &history : nullptr);
  // What a step gave may be what it was given, or what the history keeps of one.
  Values others = together(initial, closed);
  for (const std::vector<Values>* kept : {&history.carried, &history.kept}) {
    for (const Values& each : *kept) others = together(std::move(others), each);
  }
  copyShared(values, others);
  if (at.results.size() > initial.size()) values.emplace_back(keeps ? keepHistory(std::move(history)) : at::Tensor());
  setResults(at, values);
}

void Run::whileBackward(const Instruction& at) {
  const Values initial = valuesOf(at.node->arg(ops::kWhileCarried));
  const Values closed = valuesOf(at.node->arg(ops::kWhileClosed));
  const Values given = valuesOf(at.node->arg(ops::kWhileFlowing));
  const Values kept = valuesOf(at.node->arg(ops::kWhileHistory));
  // What was kept has no past: whoever follows the run sees the steps once more.
  const History* history = kept.empty() || conduct_ ? nullptr : historyOf(kept[0].toTensor());
  History again;
  if (!history) {
    repeat(at, initial, closed, &again);
    history = &again;
  }
  const Body& back = at.bodies[2];
  const bool keeps = back.parameters.size() > given.size() + initial.size() + closed.size();
  Values flowing = given;
  aten::WriteMeter unmeasured;
  for (auto step = static_cast<size_t>(history->steps); step-- > 0;) {
    Values entering = keeps ? together(history->kept[step], flowing) : std::move(flowing);
    entering = together(together(std::move(entering), step ? history->carried[step - 1] : initial), closed);
    enter(back, 0, entering);
    runRange(back.begin, back.end);
    flowing = leave(back);
  }
  copyShared(flowing, together(given, together(initial, closed)));
  setResults(at, flowing);
}

}  // namespace saker::runtime
