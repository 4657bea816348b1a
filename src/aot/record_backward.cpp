#include "aot/record_backward.h"

#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>

#include "aten/enums.h"
#include "passes/bodies.h"

namespace saker::aot {

namespace {

using torch::autograd::Edge;

// Numbers of cut points until tensors have numbers.
constexpr size_t kCuts = size_t{1} << 32;

}  // namespace

std::vector<Edge> RecordedBackward::findRoots() {
  std::vector<Edge> roots;
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!joint_.results[i].differentiable) continue;
    roots.push_back(edgeOf(results_[i]));
    resultOf_.push_back(i);
    told_.push_back(trace().valueOf(results_[i])->tensor());
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

std::vector<BackwardStage> RecordedBackward::findStages(const std::vector<at::Tensor>& outputs, const Aliases& aliases,
                                                        const std::vector<Edge>& roots,
                                                        const std::vector<Edge>& wanted) {
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
  for (size_t result : resultOf_) plain &= joint_.results[result].versions == 0;
  // Gradients of complex results may be conjugate views, which stages do not hand on.
  for (const ir::TensorType* type : told_) plain &= !c10::isComplexType(aten::fromDType(type->dtype));
  // Results of branches and loops are not handed on where gradients are differentiated again.
  return cutAtResults(roots, cuts, wanted, plain && !passes::hasBranchesOrLoops(trace().graph()));
}

void RecordedBackward::numberCuts() {
  if (joint_.stages.empty()) return;
  if (joint_.stages.size() > 1 && !joint_.backwardWrites.empty()) {
    throw NotAheadOfTime(Why::StagesWrite);
  }
  for (size_t& number : joint_.gradientOf) {
    if (number < kCuts) continue;
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
                                        const std::vector<BackwardStage>& stages) {
  if (stages.empty()) {
    std::vector<size_t> all(roots.size());
    std::iota(all.begin(), all.end(), size_t{0});
    torch::autograd::variable_list tangents = makeTangents(all);
    if (!wanted.empty()) gradients = execute(roots, tangents, wanted);
    return wanted;
  }
  // One stage that gives summands to the caller's tensors alone needs no links.
  auto cuts = [](const BackwardStage& stage) {
    return std::any_of(stage.gradients.begin(), stage.gradients.end(), [](const auto& each) { return each.isCut; });
  };
  bool linked = stages.size() > 1 || cuts(stages.front());
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
    torch::autograd::variable_list tangents = makeTangents(stage.roots);
    for (const BackwardStage::Gradient& gradient : stage.gradients) {
      noted.gradients.push_back(joint_.gradientOf.size());
      joint_.gradientOf.push_back(gradient.isCut ? kCuts + gradient.number : callers[gradient.number]);
      to.push_back(gradient.edge);
    }
    torch::autograd::variable_list found;
    if (!to.empty()) found = execute(from, tangents, to);
    for (size_t i = 0; i < found.size(); ++i) {
      if (stage.gradients[i].isCut && found[i].defined()) expectTangent(stage.gradients[i].number, found[i]);
    }
    gradients.insert(gradients.end(), found.begin(), found.end());
    ends.insert(ends.end(), to.begin(), to.end());
    if (linked) joint_.stages.push_back(std::move(noted));
  }
  return ends;
}

torch::autograd::variable_list RecordedBackward::makeTangents(const std::vector<size_t>& roots) {
  torch::autograd::variable_list tangents;
  for (size_t root : roots) {
    c10::InferenceMode normal(false);
    tangents.push_back(callers_.capture.addArgument(told_[root]));
    tangents_.push_back(trace().valueOf(tangents.back()));
    joint_.tangentOf.push_back(resultOf_[root]);
  }
  return tangents;
}

void RecordedBackward::expectTangent(size_t cut, const at::Tensor& arriving) {
  if (cut >= told_.size() || !arriving.is_non_overlapping_and_dense()) return;
  ir::TensorSpec spec(*trace().valueOf(arriving)->tensor());
  spec.offset = 0;
  told_[cut] = trace().context()->types().tensor(spec);
}

torch::autograd::variable_list RecordedBackward::execute(const std::vector<Edge>& roots,
                                                         const torch::autograd::variable_list& given,
                                                         const std::vector<Edge>& wanted) {
  torch::autograd::variable_list found;
  // A backward is asked for outside of autocast, or does without this graph (Backward::apply).
  c10::impl::ExcludeDispatchKeyGuard withoutAutocast(c10::autocast_dispatch_keyset);
  auto execute = [&] {
    found = torch::autograd::Engine::get_default_engine().execute(roots, given, /*keep_graph=*/true,
                                                                  /*create_graph=*/false,
                                                                  /*accumulate_grad=*/false, wanted);
  };
  auto wait = [&] {
    if (!host_.wait) return execute();
    host_.wait([](void* call) { (*static_cast<decltype(execute)*>(call))(); }, &execute);
  };
  size_t before = reads_->count();
  if (options_.leniently) {
    try {
      wait();
      return found;
    } catch (const std::exception&) {  // again below, where this error is gone; nobody reads what was recorded
      trace().forgetRefusal();
    }
  }
  reads_->forgetSince(before);
  try {
    options_.leniently ? options_.leniently(wait) : wait();
  } catch (const std::exception& error) {
    // In eager mode it is the backward that fails, not the call.
    std::string text = error.what();
    throw NotAheadOfTime(Why::BackwardRefused, text.substr(0, text.find('\n')));
  }
  return found;
}

}  // namespace saker::aot
