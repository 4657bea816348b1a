#include "aot/plan.h"

#include <ATen/Context.h>

#include "aot/version_checks.h"
#include "aot/zero_tangents.h"
#include "autograd/imitated.h"
#include "ops/view_inverse.h"
#include "passes/pass.h"

namespace saker::aot {

namespace {

// Primals that are read through as_strided, which counts from the start of their memory.
void noteOffsets(const ir::Graph& graph, std::vector<bool>& exact) {
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    if (node->operandCount() == 0 || node->resultCount() == 0) continue;
    if (ops::sharing(*node, 0) != ops::Sharing::Storage) continue;
    const ir::Value* base = node->operand(0);
    while (base->def() && ops::sharing(*base->def(), base->index()) != ops::Sharing::None) {
      base = base->def()->operand(0);
    }
    if (base->isParameter() && base->index() < exact.size()) exact[base->index()] = true;
  }
}

// What changes no bit of a result. Not for the recording, which may run under autograd: there `detach` is no view that
// could be left out.
constexpr const char* kPasses = "fold-constants,simplify-views,remove-noops,cse,dce";
// Before the cut, a copy of an argument that the backward reads must stay one where only what eager mode keeps is kept:
// the argument may be written before the backward comes.
constexpr const char* kKeepingCopies = "fold-constants,simplify-views,cse,dce";

void optimize(ir::Graph& graph, const char* list) {
  passes::RunOptions options;
  options.verify = false;
  passes::RunResult ran = passes::run(graph, list, options);
  if (ran.error) throw NotAheadOfTime(*ran.error);
}

// Sizes that are data are known when the forward has run, and to nobody outside of it.
void checkKnown(const ir::Graph& whole, size_t primals, std::span<const sym::Node* const> savedNumbers) {
  sym::Assignment examples = sym::exampleAssignment(whole.context().symbols());
  auto check = [&](const sym::Node* size) {
    if (!sym::evaluateInt(size, examples)) throw NotAheadOfTime("the backward depends on a size that is data");
  };
  for (const ir::Value* tangent : std::span(whole.top()->parameters()).subspan(primals)) {
    for (sym::Int size : tangent->tensor()->sizes()) {
      if (!size.isConst()) check(size.node());
    }
  }
  for (const sym::Node* number : savedNumbers) check(number);
}

}  // namespace

Plan::Plan(Joint given, const autograd::PartitionOptions& options)
    : joint(std::move(given)),
      early(joint.early, joint.program->objects),
      late(joint.late, joint.program->objects),
      deterministic(at::globalContext().deterministicAlgorithms()) {
  ir::Graph& whole = *joint.program->graph;
  bool mayDropCopies = !joint.training || options.strategy == autograd::Strategy::MinCut;
  optimize(whole, mayDropCopies ? kPasses : kKeepingCopies);
  if (joint.training) {
    autograd::Joint layout{joint.primals, whole.top()->parameters().size() - joint.primals, joint.results.size(),
                           writableAfter(joint)};
    auto made = autograd::partition(whole, layout, options);
    if (const auto* why = std::get_if<std::string>(&made)) throw NotAheadOfTime(*why);
    cut = std::move(std::get<autograd::Cut>(made));
    for (ir::Graph* half : {cut.forward.get(), cut.backward.get()}) optimize(*half, kPasses);
    for (const ir::Value* parameter : cut.backward->top()->parameters()) {
      const ir::ScalarType* number = ir::asScalar(parameter->type());
      if (number) savedNumbers.push_back(number->expression);
    }
    savedTensors = cut.saved.size() - savedNumbers.size();
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
  exactOffset.resize(joint.primals);
  noteOffsets(whole, exactOffset);
  std::vector<bool> recorded(joint.recording->graph->top()->parameters().size());
  noteOffsets(*joint.recording->graph, recorded);
  for (size_t i = 0; i < joint.primals; ++i) exactOffset[i] = exactOffset[i] || recorded[joint.recordedPlace[i]];
  forward = interpreted(forwardGraph());
}

Executable Plan::interpreted(const ir::Graph& graph) const {
  auto code = std::make_shared<runtime::Code>(graph, joint.program->objects);
  return [code](std::vector<at::Tensor> inputs, std::span<const int64_t> numbers) {
    return code->run(std::move(inputs), numbers);
  };
}

void Plan::setBackward(Executable whole, Maker maker) {
  std::lock_guard held(lock_);
  maker_ = std::move(maker);
  whole_.store(nullptr, std::memory_order_release);
  backwards_.clear();
  if (whole) {
    std::vector<bool> given(cut.backward->top()->parameters().size() - cut.saved.size(), true);
    std::vector<bool> wanted(joint.gradientOf.size(), true);
    Backward part{nullptr, std::move(whole), {}, {}};
    noteReads(part, *cut.backward);
    backwards_.emplace(std::pair(given, wanted), std::move(part));
  }
}

void Plan::setHalves(size_t saved, Executable forwardHalf, Executable backwardHalf) {
  std::lock_guard held(lock_);
  size_t tangents = cut.backward->top()->parameters().size() - cut.saved.size();
  foreign = cutByUser = true;
  forward = std::move(forwardHalf);
  cut.saved.assign(saved, {});
  savedTensors = saved;
  savedNumbers.clear();
  whole_.store(nullptr, std::memory_order_release);
  backwards_.clear();
  Backward whole{nullptr, std::move(backwardHalf), std::vector<bool>(saved + tangents, true),
                 std::vector<bool>(saved + tangents, false)};
  backwards_.emplace(std::pair(std::vector<bool>(tangents, true), std::vector<bool>(joint.gradientOf.size(), true)),
                     std::move(whole));
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

const Plan::Backward& Plan::backward(const std::vector<bool>& given, const std::vector<bool>& wanted) const {
  constexpr size_t kMost = 32;
  auto all = [](const std::vector<bool>& bits) { return std::find(bits.begin(), bits.end(), false) == bits.end(); };
  bool everything = all(given) && (foreign || all(wanted));
  if (const Backward* whole = everything ? whole_.load(std::memory_order_acquire) : nullptr) return *whole;
  std::lock_guard held(lock_);
  // A back end that may take long compiles no graph for each set of gradients that somebody asks for.
  bool some = !foreign && !all(wanted) && backwards_.size() < kMost;
  std::pair key(given, some ? wanted : std::vector<bool>(wanted.size(), true));
  auto known = backwards_.find(key);
  if (known != backwards_.end()) {
    if (everything) whole_.store(&known->second, std::memory_order_release);
    return known->second;
  }
  Backward made;
  if (some || !all(given)) made.graph = partOf(*cut.backward, cut.saved.size(), given, key.second);
  const ir::Graph& used = made.graph ? *made.graph : *cut.backward;
  made.run = maker_ ? maker_(used) : interpreted(used);
  noteReads(made, used);
  return backwards_.emplace(std::move(key), std::move(made)).first->second;
}

}  // namespace saker::aot
