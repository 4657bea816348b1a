#include "aot/joint.h"

#include <ATen/ops/expand.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <numeric>

#include "aot/aliases.h"
#include "aot/ask_autograd.h"
#include "aot/buffers.h"
#include "aot/callers.h"
#include "aot/check.h"
#include "aot/edge_values.h"
#include "aot/functional.h"
#include "aot/roots.h"
#include "aot/sparse_gradients.h"
#include "aot/stages.h"
#include "aot/user_writes.h"
#include "aot/version_checks.h"
#include "aten/convert.h"
#include "aten/enums.h"
#include "aten/trace_key.h"
#include "capture/undo.h"
#include "capture/user_code.h"
#include "passes/bodies.h"
#include "passes/pass.h"
#include "runtime/argument_names.h"

namespace saker::aot {

namespace {

using torch::autograd::Edge;
using For = BackwardStage::Gradient::For;
using tracing::reachesUserCode;
using tracing::Trace;

// Numbers of cut points until tensors have numbers.
constexpr size_t kCuts = size_t{1} << 32;

}  // namespace

class JointCapture {
 public:
  JointCapture(const tracing::Host& host, std::span<const at::Tensor> arguments, const JointOptions& options)
      : host_(host), options_(options), callers_(host, arguments, options), edgeValues_(trace()) {
    trace().allowEager();
    callers_.makeStandIns(joint_);
  }

  const ir::Graph& run(const Callee& callee) {
    WithoutHooks without;
    Returned given = call(callee);
    if (!trace().onlyEager().empty()) throw NotAheadOfTime(Why::OnlyEager, trace().onlyEager());
    for (const c10::IValue& number : given.numbers) noteNumber(number);
    callers_.addClosed(joint_);
    const std::vector<at::Tensor>& outputs = given.tensors;
    for (const at::Tensor& output : outputs) checkOutput(output);
    checkHistory(outputs);
    Aliases& aliases = aliases_.emplace(trace());
    for (size_t i = 0; i < callers_.standIns.size(); ++i) {
      if (callers_.standIns[i].defined()) checkCaller(i, aliases);
    }
    aliases.find(outputs);
    contents_ = results_ = aliases.results;
    visibleResults_ = results_.size();
    for (const at::Tensor& result : results_) noteResult(result);
    noteVisibleWrites(aliases);
    joint_.forwardNodes = trace().graph().nodeLimit();
    noteUserWrites(joint_, trace(), callers_, results_);
    differentiate(outputs, aliases);
    if (!trace().onlyEager().empty()) throw NotAheadOfTime(Why::OnlyEager, trace().onlyEager());
    checkUserWrites(joint_, trace());
    std::vector<c10::IValue> returned(contents_.begin(), contents_.end());
    returned.insert(returned.end(), gradients_.begin(), gradients_.end());
    std::unique_ptr<runtime::Program> recording = callers_.capture.finish(returned);
    passes::inlineCalls(*recording->graph);
    joint_.recording = runtime::named(std::move(recording), options_.names);
    if (!joint_.recording->gradients.empty()) throw NotAheadOfTime(Why::SetsGrad);
    auto isGradient = [](const runtime::Source& source) { return source.kind == runtime::Source::Kind::Gradient; };
    if (std::ranges::any_of(joint_.recording->sources, isGradient)) throw NotAheadOfTime(Why::ReadsGradOfClosed);
    return *joint_.recording->graph;
  }

  const ir::Graph& makeFunctional() {
    std::vector<const ir::Value*> tangents(tangents_.begin(), tangents_.end());
    aot::makeFunctional(joint_, tangents);
    aliases_->finish(joint_);
    numberCuts();
    return *joint_.program->graph;
  }

  Joint take() { return std::move(joint_); }

 private:
  Trace& trace() { return callers_.capture.trace(); }

  Returned call(const Callee& callee) {
    trace().observeReads([this](const at::Tensor& read, const tracing::ReadAs*) { edgeValues_.note(read); });
    try {
      Returned given = callee(
          {callers_.standIns.begin(), callers_.standIns.begin() + static_cast<std::ptrdiff_t>(callers_.given.size())});
      trace().observeReads(nullptr);
      return given;
    } catch (...) {
      throw CallFailed(std::current_exception(), callers_.anythingWritten());
    }
  }

  // --- what happens to the caller's tensors ---

  void noteNumber(const c10::IValue& number) {
    Arena scratch;
    aten::Converter converter(*trace().context(), scratch, host_.hooks.unwrap);
    joint_.numbers.push_back(converter.argument(number, aten::IntMeaning::Number));
  }

  // Outputs that are views of arguments are made again by view operators: what else stands in their history counts too.
  void checkHistory(const std::vector<at::Tensor>& outputs) {
    std::vector<Edge> edges;
    for (const at::Tensor& output : outputs) {
      const auto* meta = output.defined() ? torch::autograd::impl::get_autograd_meta(output) : nullptr;
      if (meta && meta->grad_fn_) edges.emplace_back(meta->grad_fn_, 0);
    }
    if (reachesUserCode(edges)) throw NotAheadOfTime(Why::UserCodeInBackward);
  }

  // Is it `.data` of a tensor that the function closes over, or one that was written? A view made again would count
  // with what it is a view of.
  bool countsByItself(const at::Tensor& output) const {
    if (output.is_inference() || !output.has_storage()) return false;
    if (tracing::TraceTensor* own = tracing::traceTensor(*output.unsafeGetTensorImpl())) {
      return own->hidesWrites() && output._version() != 0;
    }
    return std::any_of(callers_.standIns.begin(), callers_.standIns.end(), [&](const at::Tensor& caller) {
      return caller.defined() && !caller.is_same(output) && sameStorage(caller, output) &&
             !sharesVersion(caller, output);
    });
  }

  void checkOutput(const at::Tensor& output) {
    if (!output.defined()) return;
    if (output.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) {
      throw NotAheadOfTime(Why::GivesSubclass);
    }
    if (countsByItself(output)) throw NotAheadOfTime(Why::GivesData);
    if (isLeafWithGrad(output) && !callers_.isCaller(output)) leaves_.push_back(edgeOf(output));
    if (output.layout() != c10::kStrided || !output.has_storage()) throw NotAheadOfTime(Why::GivesNotDense);
    if (output.is_inference() && !c10::InferenceMode::is_enabled()) {
      bool given = std::any_of(callers_.standIns.begin(), callers_.standIns.end(),
                               [&](const at::Tensor& t) { return t.defined() && sameStorage(t, output); });
      if (!given) throw NotAheadOfTime(Why::GivesInference);
    }
  }

  void checkCaller(size_t caller, Aliases& aliases) {
    const at::Tensor& standIn = callers_.standIns[caller];
    bool moved = standIn.storage().unsafeGetStorageImpl() != callers_.before[caller].unsafeGetStorageImpl();
    if (moved && (callers_.isClosed(caller) || callers_.sharesMemory(caller))) {
      throw NotAheadOfTime(Why::MovesArgument);
    }
    if (callers_.isClosed(caller)) {
      joint_.versions.push_back(trace().undo().writesTo(standIn));
    } else {
      joint_.versions.push_back(standIn.is_inference() ? 0 : static_cast<uint32_t>(standIn._version()));
      if (hasHooks(standIn)) throw NotAheadOfTime(Why::HooksArgument);
    }
    if (moved) {
      aliases.addMoved(caller, standIn, callers_.before[caller]);
      moved_.push_back(caller);
    } else {
      aliases.addCaller(caller, standIn, callers_.values[caller]);
    }
    if (callers_.isClosed(caller)) {
      if (joint_.versions.back() != 0 && standIn.requires_grad()) {
        throw NotAheadOfTime(Why::WritesClosed);
      }
    } else if (callers_.requiredGrad[caller] && !standIn.requires_grad()) {
      throw NotAheadOfTime(Why::DropsRequiresGrad);
    } else if (!callers_.requiredGrad[caller] && !standIn.is_view() && standIn.requires_grad() && !standIn.grad_fn()) {
      throw NotAheadOfTime(Why::AddsRequiresGrad);
    }
  }

  void noteResult(const at::Tensor& result) {
    Result noted;
    noted.differentiable = result.requires_grad() && !isLeafWithGrad(result);
    noted.versions = result.is_inference() ? 0 : static_cast<uint32_t>(result._version());
    joint_.results.push_back(noted);
  }

  void noteVisibleWrites(Aliases& aliases) {
    joint_.versions.resize(callers_.standIns.size());
    joint_.historyOf.resize(callers_.standIns.size());
    for (size_t i = 0; i < callers_.standIns.size(); ++i) {
      const at::Tensor& standIn = callers_.standIns[i];
      if (!standIn.defined() || callers_.isClosed(i)) continue;
      if (i < callers_.given.size() && callers_.shared.baseOf[i]) {  // its base has the history
        joint_.historyOf[i] = aliases.isReshaped(i) || isRebased(callers_.given.size() + *callers_.shared.baseOf[i]);
        if (joint_.historyOf[i]) checkWritable(i);
        continue;
      }
      if (i < callers_.given.size() && callers_.firstOf(i) != i) continue;
      if (std::find(moved_.begin(), moved_.end(), i) != moved_.end()) {
        if (isLeafWithGrad(standIn) || !isRebased(i)) continue;
        throw Refused(Why::MovesWritten, std::to_string(i));
      }
      bool visible = isRebased(i) && isWritten(i);
      joint_.historyOf[i] = isRebased(i);
      if (joint_.historyOf[i]) checkWritable(i);
      if (!visible) continue;
      joint_.writes.push_back({i, results_.size(), true, false});
      results_.push_back(standIn);
      contents_.push_back(contentsOf(standIn));
      noteResult(standIn);
      joint_.results.back().versions = 0;
    }
  }

  bool isRebased(size_t caller) const {
    const at::Tensor& standIn = callers_.standIns[caller];
    return standIn.requires_grad() && edgeOf(standIn) != callers_.edges[caller];
  }

  // Other than by getting other strides.
  bool isWritten(size_t caller) {
    const at::Tensor& standIn = callers_.standIns[caller];
    uint32_t reshaped = 0;
    for (const ir::Value* at = trace().valueOf(standIn); at != callers_.values[caller]; at = at->def()->operand(0))
      ++reshaped;
    return static_cast<uint32_t>(standIn._version()) > reshaped;
  }

  // Where eager mode raises an error because of what an argument is to autograd, it is to be eager mode that does.
  void checkWritable(size_t caller) {
    if (refusesWrites(callers_.real(caller))) throw NotAheadOfTime(Why::WriteRefused);
  }

  // A view of all of it, so that the graph returns what is in it and not the tensor.
  at::Tensor contentsOf(const at::Tensor& standIn) {
    aten::BelowAutograd below;
    return standIn.expand_symint(standIn.sym_sizes());
  }

  // --- the backward ---

  void differentiate(const std::vector<at::Tensor>& outputs, const Aliases& aliases) {
    std::vector<Edge> roots, wanted;
    for (size_t i = 0; i < results_.size(); ++i) {
      if (!joint_.results[i].differentiable) continue;
      roots.push_back(edgeOf(results_[i]));
      resultOf_.push_back(i);
      told_.push_back(trace().valueOf(results_[i])->tensor());
    }
    for (size_t i = 0; i < callers_.standIns.size(); ++i) {
      if (!callers_.edges[i].function ||
          (i < callers_.given.size() && (callers_.firstOf(i) != i || callers_.shared.baseOf[i])))
        continue;
      if (callers_.isClosed(i) && std::find(wanted.begin(), wanted.end(), callers_.edges[i]) != wanted.end()) continue;
      if (callers_.isClosed(i) && !callers_.standIns[i].is_leaf()) throw NotAheadOfTime(Why::ClosesOverHistory);
      wanted.push_back(callers_.edges[i]);
      joint_.gradientOf.push_back(i);
    }
    Paths toLeaves(roots, leaves_);
    for (const Edge& root : roots) {
      std::vector<bool> reached = toLeaves.gradients(root.function.get());
      if (std::find(reached.begin(), reached.end(), true) != reached.end()) {
        throw NotAheadOfTime(Why::GivesOwnLeaf);
      }
    }
    // What depends on leaves that nobody gets requires grad all the same.
    joint_.training = !roots.empty();
    if (!joint_.training) {
      joint_.gradientOf.clear();
      for (Result& result : joint_.results) result.differentiable = false;
      return;
    }
    if (reachesUserCode(roots)) throw NotAheadOfTime(Why::UserCodeInBackward);
    if (tracing::needFunction(roots) && moved_.empty()) joint_.roots = findRoots(joint_, callers_, results_, outputs);
    observeReads();
    std::vector<Edge> ends = runBackward(roots, wanted, findStages(outputs, aliases, roots, wanted));
    trace().observeReads(nullptr);
    std::vector<Edge> ordered;  // by tangent
    for (size_t of : joint_.tangentOf) {
      ordered.push_back(Joint::isInner(of) ? innerEdges_[of - Joint::kInner] : edgeOf(results_[of]));
    }
    Paths paths(ordered, ends);
    noteRoots(joint_, ordered, paths);
    joint_.checks = reads_->checks(paths);
    joint_.buffers = findBuffers(paths, ends);
    takeSparseApart(joint_, gradients_);
    for (const at::Tensor& gradient : gradients_) {
      // A plain tensor beside a subclass may get a gradient of that class.
      if (gradient.defined() && gradient.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) {
        throw NotAheadOfTime(Why::GradientIsSubclass);
      }
    }
  }

  // --- results that depend on each other ---

  BackwardStages findStages(const std::vector<at::Tensor>& outputs, const Aliases& aliases,
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
    return cutAtResults(roots, cuts, wanted, {plain, mayPass});
  }

  // The tensors that cut points are, once they have numbers.
  void numberCuts() {
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

  // From here on it is the backward that reads.
  void observeReads() {
    reads_.emplace(trace(), trace().graph().top()->parameters().size(), joint_.forwardNodes);
    for (size_t i = 0; i < callers_.standIns.size(); ++i) reads_->addVisible(callers_.standIns[i], {false, i});
    for (size_t i = 0; i < results_.size(); ++i) reads_->addVisible(results_[i], {true, i});
    for (size_t i = 0; i < callers_.standIns.size(); ++i) {
      bool counts = callers_.standIns[i].defined() && callers_.standIns[i].has_storage();
      joint_.callerCounters.push_back(counts ? reads_->counterOf(callers_.standIns[i])
                                             : VersionCheck::Counter{false, i});
    }
    // Behind these are contents that are written into tensors of the caller's.
    for (size_t i = 0; i < visibleResults_; ++i) joint_.resultCounters.push_back(reads_->counterOf(results_[i]));
    trace().observeReads([this](const at::Tensor& read, const tracing::ReadAs* as) { reads_->note(read, as); });
  }

  // Gives the edges at which gradients arrive.
  std::vector<Edge> runBackward(const std::vector<Edge>& roots, const std::vector<Edge>& wanted,
                                const BackwardStages& found) {
    const std::vector<BackwardStage>& stages = found.stages;
    if (stages.empty()) {
      std::vector<size_t> all(roots.size());
      std::iota(all.begin(), all.end(), size_t{0});
      torch::autograd::variable_list tangents = makeTangents(all);
      if (!wanted.empty()) gradients_ = execute(roots, tangents, wanted);
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
      gradients_.insert(gradients_.end(), given.begin(), given.end());
      ends.insert(ends.end(), to.begin(), to.end());
      if (linked) joint_.stages.push_back(std::move(noted));
    }
    return ends;
  }

  void noteInner(const std::vector<Edge>& edges) {
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

  // What a gradient is for; of cut points until tensors have numbers.
  static size_t numberOf(const BackwardStage::Gradient& gradient, const std::vector<size_t>& callers) {
    switch (gradient.what) {
      case For::Wanted:
        return callers[gradient.number];
      case For::Cut:
        return kCuts + gradient.number;
      default:
        return Joint::kInner + gradient.number;
    }
  }

  // The tangents of these results and inner values, as further arguments.
  torch::autograd::variable_list makeTangents(const std::vector<size_t>& roots, const std::vector<size_t>& inner = {}) {
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

  // What arrives from another stage has these strides, and not those of the result.
  void expectTangent(const BackwardStage::Gradient& gradient, const at::Tensor& arriving) {
    bool isResult = gradient.what == For::Cut && gradient.number < told_.size();
    if (!isResult && gradient.what != For::Inner) return;
    if (!arriving.defined() || !arriving.is_non_overlapping_and_dense()) return;
    ir::TensorSpec spec(*trace().valueOf(arriving)->tensor());
    spec.offset = 0;
    spec.flags.conj = spec.flags.neg = false;  // a gradient is given as numbers in memory
    (isResult ? told_ : innerTold_)[gradient.number] = trace().context()->types().tensor(spec);
  }

  torch::autograd::variable_list execute(const std::vector<Edge>& roots, const torch::autograd::variable_list& tangents,
                                         const std::vector<Edge>& wanted) {
    return askAutograd(host_, options_.leniently, *reads_, trace(), roots, tangents, wanted);
  }

  const tracing::Host& host_;
  const JointOptions& options_;
  Callers callers_;
  std::vector<size_t> moved_;         // callers that see other memory after the call
  std::vector<Edge> leaves_;          // of leaves that the function makes and gives
  std::vector<at::Tensor> results_;   // whose history counts
  size_t visibleResults_ = 0;         // of them: those that the caller gets
  std::vector<at::Tensor> contents_;  // what the graph returns for them
  std::vector<ir::Value*> tangents_;
  std::vector<size_t> resultOf_;             // by root of the backward
  std::vector<const ir::TensorType*> told_;  // by root: what its tangent is expected to be
  std::vector<size_t> cutOutputs_;           // by cut point behind the roots: the output
  EdgeValues edgeValues_;                    // while the function is called
  std::vector<Edge> innerEdges_;             // by inner value
  std::vector<const ir::TensorType*> innerTold_;
  torch::autograd::variable_list gradients_;
  std::optional<SavedReads> reads_;
  std::optional<Aliases> aliases_;
  Joint joint_;
};

Differentiation::Differentiation(const tracing::Host& host, std::span<const at::Tensor> arguments,
                                 const JointOptions& options)
    : capture_(std::make_unique<JointCapture>(host, arguments, options)) {}
Differentiation::~Differentiation() = default;
const ir::Graph& Differentiation::run(const Callee& callee) { return capture_->run(callee); }
const ir::Graph& Differentiation::makeFunctional() { return capture_->makeFunctional(); }
Joint Differentiation::take() { return capture_->take(); }

}  // namespace saker::aot
