#include "aot/plan.h"

#include <ATen/Context.h>

#include <algorithm>
#include <numeric>

#include "aot/autocast.h"
#include "aot/plain_call.h"
#include "aot/stage_graph.h"
#include "aot/version_checks.h"
#include "autograd/imitated.h"
#include "ir/clone.h"
#include "ops/effects.h"
#include "runtime/shown.h"

namespace saker::aot {

namespace {

// Sizes that are data are known when the forward has run, and to nobody outside of it.
void checkKnown(const ir::Graph& whole, size_t primals, std::span<const sym::Node* const> savedNumbers) {
  sym::Assignment examples = sym::exampleAssignment(whole.context().symbols());
  auto check = [&](const sym::Node* size) {
    if (!sym::evaluateInt(size, examples)) throw NotAheadOfTime(Why::BackwardSizeIsData);
  };
  for (const ir::Value* tangent : std::span(whole.top()->parameters()).subspan(primals)) {
    for (sym::Int size : tangent->tensor()->sizes()) {
      if (!size.isConst()) check(size.node());
    }
  }
  for (const sym::Node* number : savedNumbers) check(number);
}

}  // namespace

Plan::Plan(Joint given)
    : joint(std::move(given)),
      early(joint.early, joint.program->objects),
      late(joint.late, joint.program->objects),
      deterministic(at::globalContext().deterministicAlgorithms()) {}

void Plan::cutInTwo(const autograd::PartitionOptions& options) {
  const ir::Graph& whole = *joint.program->graph;
  autograd::JointLayout layout{joint.primals, whole.top()->parameters().size() - joint.primals, joint.results.size(),
                               writableAfter(joint)};
  auto made = autograd::partition(whole, layout, options);
  if (const auto* why = std::get_if<std::string>(&made)) throw NotAheadOfTime(Why::StageFailed, *why);
  cut = std::move(std::get<autograd::Cut>(made));
}

void Plan::prepare() {
  const ir::Graph& whole = *joint.program->graph;
  if (joint.training) {
    for (const ir::Value* parameter : cut.backward->top()->parameters()) {
      const ir::ScalarType* number = ir::asScalar(parameter->type());
      if (number) savedNumbers.push_back(number->expression);
    }
    savedTensors = cut.saved.size() - savedNumbers.size();
    autocastMatters = aot::autocastMatters(*cut.backward);
    checkKnown(whole, joint.primals, savedNumbers);
  }
  for (const ir::Value* parameter : whole.top()->parameters()) {
    symbolic |= !parameter->tensor() || parameter->tensor()->symbolic;
  }
  for (const ir::Node* node = whole.top()->first(); node; node = node->next()) {
    detaches |= node->op()->qualified == "aten::as_strided_scatter";
  }
  isReached.resize(joint.gradientOf.size());
  for (const std::vector<bool>& gradients : joint.reaches) {
    for (size_t i = 0; i < gradients.size(); ++i) isReached[i] = isReached[i] || gradients[i];
  }
  isUnreached.resize(joint.callers());
  for (size_t i = 0; i < joint.gradientOf.size(); ++i) {
    if (!joint.isCut(i)) isUnreached[joint.gradientOf[i]] = true;
  }
  for (size_t i = 0; i < joint.gradientOf.size(); ++i) {
    if (!joint.isCut(i) && isReached[i]) isUnreached[joint.gradientOf[i]] = false;
  }
  exactOffset = runtime::placedParameters(whole);
  exactOffset.resize(joint.primals);
  std::vector<bool> recorded = runtime::placedParameters(*joint.recording->graph);
  for (size_t i = 0; i < joint.primals; ++i) exactOffset[i] = exactOffset[i] || recorded[joint.recordedPlace[i]];
  forward = interpreted(forwardGraph());
  findStages();
  plain = isPlain(*this);
}

// Steps by what they begin with: a tensor of the caller's, or the result of a stage.
static std::vector<std::vector<Step>> stepsOf(const Joint& joint) {
  std::vector<size_t> groupOf(joint.tensors);
  for (size_t stage = 0; stage < joint.stages.size(); ++stage) {
    for (size_t tangent : joint.stages[stage].tangents) {
      if (Joint::isInner(joint.tangentOf[tangent])) continue;
      groupOf[joint.callers() + joint.tangentOf[tangent]] = stage + 1;
    }
  }
  std::vector<std::vector<Step>> groups(joint.stages.size() + 1);
  for (const Step& step : joint.late) {
    size_t group = groupOf[step.source];
    size_t made = step.kind == Step::Kind::View ? step.node->resultCount() : 1;
    for (size_t i = 0; i < made; ++i) groupOf[step.target + i] = group;
    groups[group].push_back(step);
  }
  return groups;
}

void Plan::findStages() {
  if (!joint.training) return;
  stages = joint.stages;
  if (!staged()) {
    stages.resize(1);
    stages[0].tangents.resize(joint.tangentOf.size());
    std::iota(stages[0].tangents.begin(), stages[0].tangents.end(), size_t{0});
    stages[0].gradients.resize(joint.gradientOf.size());
    std::iota(stages[0].gradients.begin(), stages[0].gradients.end(), size_t{0});
  }
  for (const Joint::Stage& stage : stages) {
    together.push_back(deliverTogether(joint, stage));
    inTurn.push_back(deliverInTurn(joint, stage));
  }
  whole_ = std::vector<std::atomic<const Backward*>>(stages.size());
  savedOf.resize(stages.size());
  for (const Joint::Stage& stage : stages) {
    buffersOf.emplace_back();
    for (size_t i = 0; i < joint.buffers.size(); ++i) {
      bool used = std::any_of(stage.tangents.begin(), stage.tangents.end(),
                              [&](size_t tangent) { return joint.buffers[i].tangents[tangent]; });
      if (used) buffersOf.back().push_back(i);
    }
  }
  for (size_t i = 0; !staged() && i < savedTensors; ++i) savedOf[0].push_back(i);
  if (!staged()) return;
  findInner();
  for (const std::vector<Step>& steps : stepsOf(joint)) lateOf.emplace_back(steps, joint.program->objects);
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    std::vector<bool> given(stages[stage].tangents.size(), true), wanted(stages[stage].gradients.size(), true);
    const Backward& part = backward(stage, given, wanted);
    for (size_t i = 0; i < savedTensors; ++i) {
      if (part.reads[i]) savedOf[stage].push_back(i);
    }
  }
}

void Plan::findInner() {
  innerAt.resize(joint.inner.size());
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    for (size_t i = 0; i < stages[stage].tangents.size(); ++i) {
      size_t of = joint.tangentOf[stages[stage].tangents[i]];
      if (Joint::isInner(of)) innerAt[of - Joint::kInner] = {stage, i};
    }
  }
}

Executable Plan::interpreted(const ir::Graph& graph, Executable* freely) const {
  // What the forward has computed for this backward alone, and gradients that arrive, end in it.
  std::vector<bool> ending;
  if (&graph != &forwardGraph() && graph.top()->parameters().size() == cut.backward->top()->parameters().size()) {
    ending.assign(graph.top()->parameters().size(), true);
    for (size_t i = 0; i < cut.saved.size(); ++i) ending[i] = !cut.saved[i].primal;
  }
  auto prepared = std::make_shared<runtime::Prepared>(graph, joint.program->objects, /*simplified=*/true, native,
                                                      std::move(ending));
  if (freely && runtime::mayRunFreely(graph)) {
    *freely = [prepared](std::vector<at::Tensor> inputs, std::span<const int64_t> numbers) {
      return prepared->get(runtime::Executable::Views::Called).run(std::move(inputs), numbers, /*freely=*/true);
    };
  }
  return [prepared](std::vector<at::Tensor> inputs, std::span<const int64_t> numbers) {
    const runtime::Executable& executable = prepared->get(inputs, numbers);
    return executable.run(std::move(inputs), numbers);
  };
}

void Plan::setBackward(Executable whole, Maker maker) {
  std::lock_guard held(lock_);
  maker_ = std::move(maker);
  for (auto& known : whole_) known.store(nullptr, std::memory_order_release);
  backwards_.clear();
  if (whole && !staged()) {
    std::vector<bool> given(cut.backward->top()->parameters().size() - cut.saved.size(), true);
    std::vector<bool> wanted(joint.gradientOf.size(), true);
    Backward& part = backwards_.try_emplace(Key(0, given, wanted)).first->second;
    part.run = std::move(whole);
    noteReads(part, *cut.backward);
  }
}

void Plan::setHalves(size_t saved, Executable forwardHalf, Executable backwardHalf) {
  std::lock_guard held(lock_);
  size_t tangents = cut.backward->top()->parameters().size() - cut.saved.size();
  SAKER_CHECK(!staged(), "halves of the user's are one stage");
  foreign = cutByUser = true;
  forward = std::move(forwardHalf);
  cut.saved.assign(saved, {});
  savedTensors = saved;
  savedNumbers.clear();
  savedOf[0].resize(saved);
  std::iota(savedOf[0].begin(), savedOf[0].end(), size_t{0});
  whole_[0].store(nullptr, std::memory_order_release);
  backwards_.clear();
  Key key(0, std::vector<bool>(tangents, true), std::vector<bool>(joint.gradientOf.size(), true));
  Backward& whole = backwards_.try_emplace(std::move(key)).first->second;
  whole.run = std::move(backwardHalf);
  whole.reads.assign(saved + tangents, true);
  whole.imitates.assign(saved + tangents, false);
}

void Plan::noteReads(Backward& part, const ir::Graph& graph) const {
  for (const ir::Value* parameter : graph.top()->parameters()) {
    bool reads = false;
    for (const ir::Use* use = parameter->firstUse(); use; use = use->next)
      reads |= autograd::readsData(*use->user, parameter);
    part.reads.push_back(reads);
    part.imitates.push_back(!reads && (symbolic || parameter->hasUses()));
  }
}

std::vector<bool> Plan::readPrimals(const Backward& part) const {
  std::span<const ir::Arg> returned = cut.forward->top()->terminator()->args();
  std::span<const ir::Arg> saved = returned.subspan(returned.size() - cut.saved.size());
  std::vector<const ir::Value*> read;
  for (size_t i = 0; i < saved.size(); ++i) {
    if (part.reads[i] && saved[i].isValue()) read.push_back(saved[i].toValue());
  }
  return parametersOf(*cut.forward, read);
}

// The part of the backward that a stage is, or a part of that.
Part Plan::stageGraph(size_t stage, const std::vector<bool>& given, const std::vector<bool>& wanted) const {
  const Joint::Stage& own = stages[stage];
  std::vector<bool> allGiven(joint.tangentOf.size());
  for (size_t i = 0; i < given.size(); ++i) allGiven[own.tangents[i]] = given[i];
  std::unique_ptr<ir::Graph> graph =
      staged() ? stageOf(*cut.backward, cut.saved.size(), own, joint.gradientOf.size()) : ir::clone(*cut.backward);
  return partOf(std::move(graph), cut.saved.size(), allGiven, wanted);
}

std::vector<size_t> Plan::lostGradients(const ir::Graph& part, size_t stage, const std::vector<bool>& given,
                                        const std::vector<bool>& wanted) const {
  const Joint::Stage& own = stages[stage];
  std::vector<size_t> found;
  for (size_t i = 0; i < wanted.size(); ++i) {
    size_t gradient = own.gradients[i];
    bool lost = wanted[i] && part.top()->terminator()->arg(i).isNone() &&
                !cut.backward->top()->terminator()->arg(gradient).isNone();
    bool reached = false;
    for (size_t k = 0; lost && k < given.size(); ++k) reached |= given[k] && joint.reaches[own.tangents[k]][gradient];
    if (reached) found.push_back(i);
  }
  return found;
}

const Plan::Backward& Plan::backward(size_t stage, const std::vector<bool>& given,
                                     const std::vector<bool>& wanted) const {
  constexpr size_t kMost = 32;
  auto all = [](const std::vector<bool>& bits) { return std::find(bits.begin(), bits.end(), false) == bits.end(); };
  bool everything = all(given) && (foreign || all(wanted));
  if (const Backward* whole = everything ? whole_[stage].load(std::memory_order_acquire) : nullptr) return *whole;
  std::lock_guard held(lock_);
  // A back end that may take long compiles no graph for each set of gradients that somebody asks for.
  bool some = !foreign && !all(wanted) && backwards_.size() < kMost * stages.size();
  Key key(stage, given, some ? wanted : std::vector<bool>(wanted.size(), true));
  auto known = backwards_.find(key);
  if (known == backwards_.end()) {
    known = backwards_.try_emplace(std::move(key)).first;
    Backward& made = known->second;
    if (staged() || some || !all(given)) {
      Part part = stageGraph(stage, given, std::get<2>(known->first));
      made.graph = std::move(part.graph);
      made.differsByBranch = part.differsByBranch;
    }
    const ir::Graph& used = made.graph ? *made.graph : *cut.backward;
    if (!all(given)) made.lost = lostGradients(used, stage, given, std::get<2>(known->first));
    made.unsure = !made.lost.empty();
    try {
      made.run = maker_ ? maker_(used) : interpreted(used, &made.runFreely);
    } catch (...) {
      backwards_.erase(known);
      throw;
    }
    noteReads(made, used);
  }
  if (everything) whole_[stage].store(&known->second, std::memory_order_release);
  return known->second;
}

}  // namespace saker::aot
