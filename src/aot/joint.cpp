#include "aot/joint.h"

#include <ATen/ops/expand.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "aot/aliases.h"
#include "aot/buffers.h"
#include "aot/callers.h"
#include "aot/check.h"
#include "aot/functional.h"
#include "aot/record_backward.h"
#include "aot/roots.h"
#include "aot/sparse_gradients.h"
#include "aot/user_writes.h"
#include "aot/version_checks.h"
#include "aten/convert.h"
#include "aten/trace_key.h"
#include "capture/undo.h"
#include "capture/user_code.h"
#include "ops/effects.h"
#include "passes/bodies.h"
#include "passes/pass.h"
#include "runtime/argument_names.h"

namespace saker::aot {

namespace {

using torch::autograd::Edge;
using tracing::reachesUserCode;
using tracing::Trace;

}  // namespace

class JointCapture {
 public:
  JointCapture(const tracing::Host& host, std::span<const at::Tensor> arguments, const JointOptions& options)
      : host_(host), options_(options), callers_(host, arguments, options) {
    trace().allowEager();
    callers_.makeStandIns(joint_);
  }

  const ir::Graph& run(const Callee& callee) {
    WithoutHooks without;
    Returned given = call(callee);
    if (!trace().onlyEager().empty()) throw NotAheadOfTime(Why::OnlyEager, trace().onlyEager());
    if (trace().setsMade()) throw NotAheadOfTime(Why::SetsMade);
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
    returned.insert(returned.end(), backward_.gradients.begin(), backward_.gradients.end());
    std::unique_ptr<runtime::Program> recording = callers_.capture.finish(returned);
    passes::inlineCalls(*recording->graph);
    joint_.recording = runtime::named(std::move(recording), options_.names);
    if (!joint_.recording->gradients.empty()) throw NotAheadOfTime(Why::SetsGrad);
    auto isGradient = [](const runtime::Source& source) { return source.kind == runtime::Source::Kind::Gradient; };
    if (std::ranges::any_of(joint_.recording->sources, isGradient)) throw NotAheadOfTime(Why::ReadsGradOfClosed);
    return *joint_.recording->graph;
  }

  const ir::Graph& makeFunctional() {
    aot::makeFunctional(joint_, backward_.tangents());
    aliases_->finish(joint_);
    backward_.numberCuts();
    return *joint_.program->graph;
  }

  Joint take() { return std::move(joint_); }

 private:
  Trace& trace() { return callers_.capture.trace(); }

  Returned call(const Callee& callee) {
    trace().observeReads([this](const at::Tensor& read, const tracing::ReadAs*) { backward_.noteForward(read); });
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

  // A second derivative runs the recording under autograd, which would follow a write that it does not see here.
  void refuseHiddenWrites() {
    std::vector<uint32_t> counted(callers_.given.size());
    for (const ir::Node* node = trace().graph().top()->first(); node; node = node->next()) {
      ops::eachWritten(*node, [&](const ir::Value* value) {
        while (value && !value->isParameter()) value = ops::sharedArgument(value);
        for (size_t i = 0; value && i < counted.size(); ++i) counted[i] += callers_.values[i] == value;
      });
    }
    for (size_t i = 0; i < counted.size(); ++i) {
      if (!callers_.requiredGrad[i] || callers_.standIns[i].is_inference()) continue;
      if (counted[i] > callers_.standIns[i]._version()) throw NotAheadOfTime(Why::WritesDataOfArgument);
    }
  }

  void differentiate(const std::vector<at::Tensor>& outputs, const Aliases& aliases) {
    std::vector<Edge> roots = backward_.findRoots(), wanted;
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
    if (joint_.training) refuseHiddenWrites();
    if (!joint_.training) {
      joint_.gradientOf.clear();
      for (Result& result : joint_.results) result.differentiable = false;
      return;
    }
    if (reachesUserCode(roots)) throw NotAheadOfTime(Why::UserCodeInBackward);
    if (tracing::needFunction(roots) && moved_.empty()) joint_.roots = findRoots(joint_, callers_, results_, outputs);
    std::vector<Edge> ends = backward_.record(roots, wanted, outputs, aliases, visibleResults_);
    std::vector<Edge> ordered;  // by tangent
    for (size_t of : joint_.tangentOf) ordered.push_back(backward_.edgeOfTangent(of));
    Paths paths(ordered, ends);
    noteRoots(joint_, ordered, ends, paths);
    joint_.checks = backward_.reads().checks(paths);
    findBuffers(joint_, paths, ordered, ends);
    takeSparseApart(joint_, backward_.gradients);
    for (const at::Tensor& gradient : backward_.gradients) {
      // A plain tensor beside a subclass may get a gradient of that class.
      if (gradient.defined() && gradient.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python)) {
        throw NotAheadOfTime(Why::GradientIsSubclass);
      }
    }
  }

  const tracing::Host& host_;
  const JointOptions& options_;
  Callers callers_;
  std::vector<size_t> moved_;         // callers that see other memory after the call
  std::vector<Edge> leaves_;          // of leaves that the function makes and gives
  std::vector<at::Tensor> results_;   // whose history counts
  size_t visibleResults_ = 0;         // of them: those that the caller gets
  std::vector<at::Tensor> contents_;  // what the graph returns for them
  std::optional<Aliases> aliases_;
  Joint joint_;
  RecordedBackward backward_{host_, options_, callers_, results_, joint_};
};

Differentiation::Differentiation(const tracing::Host& host, std::span<const at::Tensor> arguments,
                                 const JointOptions& options)
    : capture_(std::make_unique<JointCapture>(host, arguments, options)) {}
Differentiation::~Differentiation() = default;
const ir::Graph& Differentiation::run(const Callee& callee) { return capture_->run(callee); }
const ir::Graph& Differentiation::makeFunctional() { return capture_->makeFunctional(); }
Joint Differentiation::take() { return capture_->take(); }

}  // namespace saker::aot
