#include "aot/record_backward.h"

#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>

#include "aot/ask_autograd.h"
#include "ops/shape.h"
#include "passes/bodies.h"
#include "runtime/prepared.h"

namespace saker::aot {

namespace {

using torch::autograd::Edge;
using For = BackwardStage::Gradient::For;

// Numbers of cut points until tensors have numbers.
constexpr size_t kCuts = size_t{1} << 32;

// What a gradient is for; of cut points until tensors have numbers.
size_t numberOf(const BackwardStage::Gradient& gradient, const std::vector<size_t>& callers) {
  switch (gradient.what) {
    case For::Wanted:
      return callers[gradient.number];
    case For::Cut:
      return kCuts + gradient.number;
    default:
      return Joint::kInner + gradient.number;
  }
}

// A tangent has numbers of its own where elements of the result share an address (pieces of an expanded tensor).
const ir::TensorType* tangentFor(const ir::TensorType* result, ir::Context& context) {
  if (ops::surelyApart(*result)) return result;
  ir::TensorSpec spec(*result);
  spec.strides = ir::contiguousStrides(spec.sizes);
  spec.offset = 0;
  return context.types().tensor(spec);
}

}  // namespace

std::vector<Edge> RecordedBackward::findRoots() {
  std::vector<Edge> roots;
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!joint_.results[i].differentiable) continue;
    roots.push_back(edgeOf(results_[i]));
    resultOf_.push_back(i);
    told_.push_back(tangentFor(trace().valueOf(results_[i])->tensor(), *trace().context()));
  }
  return roots;
}

std::vector<Edge> RecordedBackward::record(const std::vector<Edge>& roots, const std::vector<Edge>& wanted,
                                           const std::vector<at::Tensor>& outputs, const Aliases& aliases,
                                           size_t visibleResults) {
  observeReads(visibleResults);
  std::vector<Edge> ends = run(roots, wanted, findStages(outputs, aliases, roots, wanted));
  trace().observeReads(nullptr);
  return ends;
}

Edge RecordedBackward::edgeOfTangent(size_t of) const {
  return Joint::isInner(of) ? innerEdges_[of - Joint::kInner] : edgeOf(results_[of]);
}

BackwardStages RecordedBackward::findStages(const std::vector<at::Tensor>& outputs, const Aliases& aliases,
                                            const std::vector<Edge>& roots, const std::vector<Edge>& wanted) {
  if (!options_.inStages) return {};
  std::vector<CutPoint> cuts;
  for (size_t i = 0; i < roots.size(); ++i) cuts.push_back({roots[i], i});
  for (size_t i = 0; i < outputs.size(); ++i) {
    // As it is written down: asking a view for its history may make it anew.
    const auto* meta = outputs[i].defined() ? torch::autograd::impl::get_autograd_meta(outputs[i]) : nullptr;
    if (!meta || !meta->grad_fn_) continue;
    Edge edge(meta->grad_fn_, meta->output_nr_);
    if (std::find(wanted.begin(), wanted.end(), edge) != wanted.end()) continue;
    auto root = std::find_if(resultOf_.begin(), resultOf_.end(),
                             [&](size_t result) { return results_[result].is_same(autogradBase(outputs[i])); });
    cuts.push_back({edge, root == resultOf_.end() ? std::nullopt : std::optional(root - resultOf_.begin())});
    cutOutputs_.push_back(i);
  }
  bool plain = aliases.hasOnlyViews() && joint_.roots.empty() && joint_.bases.empty();
  for (const Write& write : joint_.writes) plain &= !write.visible;
  for (size_t i = 0; i < callers_.standIns.size(); ++i) plain &= !joint_.historyOf[i];
  // What is written in place has no value of its own in the recording, which second derivatives would begin at.
  for (size_t result : resultOf_) plain &= joint_.results[result].versions == 0;
  // Results of branches and loops are not handed on where gradients are differentiated again.
  plain &= !passes::hasBranchesOrLoops(trace().graph());
  auto mayPass = [this](const Edge& edge) { return edgeValues_.find(edge) != nullptr; };
  bool summands = !runtime::generatesCode(options_.native) || runtime::keepsAllBits(options_.native);
  return cutAtResults(roots, cuts, wanted, {plain, summands, mayPass});
}

void RecordedBackward::numberCuts() {
  if (joint_.stages.empty()) return;
  if (joint_.stages.size() > 1 && !joint_.backwardWrites.empty()) {
    throw NotAheadOfTime(Why::StagesWrite);
  }
  for (const Joint::Sparse& sparse : joint_.sparse) {
    if (Joint::isInner(joint_.gradientOf[sparse.values])) throw NotAheadOfTime(Why::StagesShare);
  }
  for (size_t& number : joint_.gradientOf) {
    if (number < kCuts) continue;
    if (Joint::isInner(number)) continue;
    size_t cut = number - kCuts;
    number = cut < resultOf_.size() ? joint_.callers() + resultOf_[cut]
                                    : *joint_.outputs[cutOutputs_[cut - resultOf_.size()]];
  }
}

void RecordedBackward::observeReads(size_t visibleResults) {
  reads_.emplace(trace(), trace().graph().top()->parameters().size(), joint_.forwardNodes);
  for (size_t i = 0; i < callers_.standIns.size(); ++i) reads_->addVisible(callers_.standIns[i], {false, i});
  for (size_t i = 0; i < results_.size(); ++i) reads_->addVisible(results_[i], {true, i});
  for (size_t i = 0; i < callers_.standIns.size(); ++i) {
    bool counts = callers_.standIns[i].defined() && callers_.standIns[i].has_storage();
    joint_.callerCounters.push_back(counts ? reads_->counterOf(callers_.standIns[i]) : VersionCheck::Counter{false, i});
  }
  // Behind these are contents that are written into tensors of the caller's.
  for (size_t i = 0; i < visibleResults; ++i) joint_.resultCounters.push_back(reads_->counterOf(results_[i]));
  trace().observeReads([this](const at::Tensor& read, const tracing::ReadAs* as) { reads_->note(read, as); });
}

std::vector<Edge> RecordedBackward::run(const std::vector<Edge>& roots, const std::vector<Edge>& wanted,
                                        const BackwardStages& found) {
  const std::vector<BackwardStage>& stages = found.stages;
  if (stages.empty()) {
    std::vector<size_t> all(roots.size());
    std::iota(all.begin(), all.end(), size_t{0});
    torch::autograd::variable_list tangents = makeTangents(all);
    if (!wanted.empty()) gradients = execute(roots, tangents, wanted);
    return wanted;
  }
  // One stage that gives summands to the caller's tensors alone needs no links.
  auto cuts = [](const BackwardStage& stage) {
    return std::any_of(stage.gradients.begin(), stage.gradients.end(),
                       [](const auto& each) { return each.what == For::Cut; });
  };
  bool linked = stages.size() > 1 || cuts(stages.front());
  noteInner(found.inner);
  std::vector<Edge> ends;
  std::vector<size_t> callers = std::move(joint_.gradientOf);
  joint_.gradientOf.clear();
  for (const BackwardStage& stage : stages) {
    Joint::Stage noted;
    std::vector<Edge> from, to;
    for (size_t root : stage.roots) {
      noted.tangents.push_back(joint_.tangentOf.size() + noted.tangents.size());
      from.push_back(roots[root]);
    }
    for (size_t inner : stage.inner) {
      noted.tangents.push_back(joint_.tangentOf.size() + noted.tangents.size());
      from.push_back(innerEdges_[inner]);
    }
    torch::autograd::variable_list tangents = makeTangents(stage.roots, stage.inner);
    for (const BackwardStage::Gradient& gradient : stage.gradients) {
      noted.gradients.push_back(joint_.gradientOf.size());
      joint_.gradientOf.push_back(numberOf(gradient, callers));
      to.push_back(gradient.edge);
    }
    torch::autograd::variable_list given;
    if (!to.empty()) given = execute(from, tangents, to);
    for (size_t i = 0; i < given.size(); ++i) expectTangent(stage.gradients[i], given[i]);
    gradients.insert(gradients.end(), given.begin(), given.end());
    ends.insert(ends.end(), to.begin(), to.end());
    if (linked) joint_.stages.push_back(std::move(noted));
  }
  return ends;
}

void RecordedBackward::noteInner(const std::vector<Edge>& edges) {
  innerEdges_ = edges;
  for (const Edge& edge : edges) {
    const ir::Value* value = edgeValues_.find(edge);
    joint_.inner.push_back({value, value->tensor()});
    ir::TensorSpec spec(*value->tensor());
    spec.strides = ir::contiguousStrides(spec.sizes);
    spec.offset = 0;
    spec.flags.conj = spec.flags.neg = false;
    innerTold_.push_back(trace().context()->types().tensor(spec));
  }
}

torch::autograd::variable_list RecordedBackward::makeTangents(const std::vector<size_t>& roots,
                                                              const std::vector<size_t>& inner) {
  torch::autograd::variable_list tangents;
  auto make = [&](const ir::TensorType* type, size_t of) {
    c10::InferenceMode normal(false);
    tangents.push_back(callers_.capture.addArgument(type));
    tangents_.push_back(trace().valueOf(tangents.back()));
    joint_.tangentOf.push_back(of);
  };
  for (size_t root : roots) make(told_[root], resultOf_[root]);
  for (size_t each : inner) make(innerTold_[each], Joint::kInner + each);
  return tangents;
}

void RecordedBackward::expectTangent(const BackwardStage::Gradient& gradient, const at::Tensor& arriving) {
  bool isResult = gradient.what == For::Cut && gradient.number < told_.size();
  if (!isResult && gradient.what != For::Inner) return;
  if (!arriving.defined() || !arriving.is_non_overlapping_and_dense()) return;
  ir::TensorSpec spec(*trace().valueOf(arriving)->tensor());
  spec.offset = 0;
  spec.flags.conj = spec.flags.neg = false;  // a gradient is given as numbers in memory
  (isResult ? told_ : innerTold_)[gradient.number] = trace().context()->types().tensor(spec);
}

torch::autograd::variable_list RecordedBackward::execute(const std::vector<Edge>& roots,
                                                         const torch::autograd::variable_list& tangents,
                                                         const std::vector<Edge>& wanted) {
  return askAutograd(host_, options_.leniently, *reads_, trace(), roots, tangents, wanted);
}

}  // namespace saker::aot
