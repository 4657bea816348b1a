#include "aot/compiled_function.h"

#include <algorithm>

#include "aot/call.h"
#include "aot/plain_call.h"

namespace saker::aot {

void CompiledFunction::setExecutables(Executable forward, Executable backward, Maker backwardMaker) {
  plan_->foreign = forward || backward || backwardMaker;
  if (forward) plan_->forward = std::move(forward);
  if (training()) plan_->setBackward(std::move(backward), std::move(backwardMaker));
}

void CompiledFunction::setHalves(size_t saved, Executable forward, Executable backward) {
  plan_->setHalves(saved, std::move(forward), std::move(backward));
}

std::vector<std::optional<GraphWrite>> CompiledFunction::writesForGraph() const {
  const Joint& joint = plan_->joint;
  bool inputs =
      std::any_of(joint.results.begin(), joint.results.end(), [](const Result& each) { return each.isInput; });
  if (joint.training || inputs) return std::vector<std::optional<GraphWrite>>(joint.writes.size());
  // By result: does anything but a write need it?
  std::vector<bool> needed(joint.tensors);
  for (const std::optional<size_t>& output : joint.outputs) {
    if (output) needed[*output] = true;
  }
  for (const std::vector<Step>* steps : {&joint.early, &joint.late}) {
    for (const Step& step : *steps) needed[step.source] = true;
  }
  std::vector<std::optional<GraphWrite>> out;
  for (const Write& write : joint.writes) {
    std::optional<GraphWrite>& found = out.emplace_back();
    for (size_t i = 0; i < joint.sources.size() && !found; ++i) {
      bool same = joint.sources[i].caller == write.caller && joint.sources[i].flat == write.flat;
      if (same) found = GraphWrite{i, write.result, needed[joint.callers() + write.result]};
    }
  }
  return out;
}

std::vector<bool> CompiledFunction::exactOffsets() const {
  const Joint& joint = plan_->joint;
  std::vector<bool> out(joint.arguments);
  for (size_t i = 0; i < joint.primals; ++i) {
    const Joint::Primal& source = joint.sources[i];
    if (source.caller < joint.arguments && (source.flat || plan_->exactOffset[i])) out[source.caller] = true;
  }
  for (const Joint::Member& member : joint.members) out[member.argument] = true;
  return out;
}

CompiledFunction::Saved CompiledFunction::saved() const {
  Saved out;
  if (!training()) return out;
  out.bytes = plan_->cut.savedBytes;
  for (size_t i = 0; i < plan_->savedTensors; ++i) ++(plan_->cut.saved[i].primal ? out.inputs : out.tensors);
  return out;
}

void CompiledFunction::leaveWritesToGraph() { plan_->graphWrites = true; }

void CompiledFunction::setBackwardHolds(std::function<bool()> holds) { plan_->backwardHolds = std::move(holds); }
void CompiledFunction::setFunction(Callee function) { plan_->function = std::move(function); }

bool CompiledFunction::mayNeedEager() const {
  const std::vector<bool>& history = plan_->joint.historyOf;
  bool reachable = !plan_->joint.writes.empty() && !plan_->joint.closed.empty();
  return reachable || std::find(history.begin(), history.end(), true) != history.end();
}

std::optional<std::vector<at::Tensor>> CompiledFunction::operator()(std::vector<at::Tensor> arguments,
                                                                    std::vector<c10::IValue>* numbers) const {
  bool plain = plan_->plain && plan_->joint.numbers.empty() && arguments.size() == plan_->joint.arguments;
  if (plain) return callPlainly(*plan_, std::move(arguments));
  return call(plan_, std::move(arguments), numbers);
}

}  // namespace saker::aot
