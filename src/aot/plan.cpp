#include "aot/plan.h"

#include <ATen/Context.h>

#include "aot/zero_tangents.h"
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
void optimize(ir::Graph& graph) {
  passes::RunOptions options;
  options.verify = false;
  passes::RunResult ran = passes::run(graph, "fold-constants,simplify-views,remove-noops,cse,dce", options);
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
  const ir::Graph& whole = *joint.program->graph;
  if (joint.training) {
    autograd::Joint layout{joint.primals, whole.top()->parameters().size() - joint.primals, joint.results.size()};
    auto made = autograd::partition(whole, layout, options);
    if (const auto* why = std::get_if<std::string>(&made)) throw NotAheadOfTime(*why);
    cut = std::move(std::get<autograd::Cut>(made));
    for (ir::Graph* half : {cut.forward.get(), cut.backward.get()}) optimize(*half);
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
  backwards_.clear();
  if (whole) {
    size_t tangents = cut.backward->top()->parameters().size() - cut.saved.size();
    backwards_.emplace(std::vector<bool>(tangents, true),
                       std::pair(std::shared_ptr<const ir::Graph>(), std::move(whole)));
  }
}

const Executable& Plan::backward(const std::vector<bool>& given) const {
  std::lock_guard held(lock_);
  auto known = backwards_.find(given);
  if (known != backwards_.end()) return known->second.second;
  std::shared_ptr<const ir::Graph> graph;
  bool all = std::find(given.begin(), given.end(), false) == given.end();
  if (!all) graph = withoutTangents(*cut.backward, cut.saved.size(), given);
  const ir::Graph& used = all ? *cut.backward : *graph;
  Executable made = maker_ ? maker_(used) : interpreted(used);
  return backwards_.emplace(given, std::pair(std::move(graph), std::move(made))).first->second.second;
}

}  // namespace saker::aot
