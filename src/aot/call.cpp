#include "aot/call.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>
#include <unordered_set>

#include "aot/backward.h"
#include "aot/check.h"
#include "aot/sharing.h"
#include "aten/on_copies.h"
#include "aten/torch_version/autograd_node.h"
#include "aten/trace_key.h"
#include "runtime/geometry.h"

namespace saker::aot {

namespace {

using torch::autograd::SavedVariable;

class Call {
 public:
  Call(const std::shared_ptr<const Plan>& plan, std::vector<at::Tensor> arguments)
      : plan_(plan), joint_(plan->joint), tensors_(std::move(arguments)) {
    if (tensors_.size() != joint_.arguments) {
      throw WrongArguments("the function was compiled for " + std::to_string(joint_.arguments) + " tensors, " +
                           std::to_string(tensors_.size()) + " were given");
    }
    tensors_.reserve(joint_.tensors);
    for (size_t argument : joint_.bases) tensors_.push_back(autogradBase(tensors_[argument]));
    tensors_.insert(tensors_.end(), joint_.closed.begin(), joint_.closed.end());
    primals_.reserve(joint_.primals);
    for (const Joint::Primal& source : joint_.sources) {
      primals_.push_back(source.flat ? flat(tensors_[source.caller]) : tensors_[source.caller]);
    }
    symbols_ = checkPrimals(*plan_, primals_);
    checkMembers(*plan_, tensors_);
  }

  // In eager mode autograd may refuse a write: then it is to be eager mode that raises.
  bool mayRun() const {
    if (!joint_.writes.empty() && !joint_.closed.empty() && reachesClosed()) return false;
    for (size_t i = 0; i < joint_.historyOf.size(); ++i) {
      if (joint_.historyOf[i] && refusesWrites(tensors_[i])) return false;
    }
    return true;
  }

  std::vector<c10::IValue> numbers() const {
    std::vector<c10::IValue> values;
    for (const ir::Arg& number : joint_.numbers) values.push_back(valueOf(number));
    return values;
  }

  std::vector<at::Tensor> run() {
    bool training = joint_.training && !c10::InferenceMode::is_enabled();
    training = training && (joint_.gradientOf.empty() || anyRequiresGrad());
    noteVersions();
    runForward(training);
    redo();
    // Where hooks keep what is saved, autograd checks no versions.
    if (saved_ && !isHooked()) saved_->versions = Versions(joint_, tensors_);
    std::vector<at::Tensor> outputs;
    outputs.reserve(joint_.outputs.size());
    for (const std::optional<size_t>& output : joint_.outputs) {
      outputs.push_back(output ? tensors_[*output] : at::Tensor());
    }
    return outputs;
  }

 private:
  // Where a gradient is for a view of what the caller has, it is what the caller has that requires grad.
  bool anyRequiresGrad() const {
    auto requiresGrad = [](const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); };
    if (plan_->staged()) return std::any_of(tensors_.begin(), tensors_.end(), requiresGrad);
    return std::any_of(joint_.gradientOf.begin(), joint_.gradientOf.end(),
                       [&](size_t caller) { return requiresGrad(tensors_[caller]); });
  }

  // Does an argument see memory that the function closes over? None did when it was compiled.
  bool reachesClosed() const {
    size_t behind = joint_.arguments + joint_.bases.size();
    std::vector<uint32_t> first = aten::sharedMemory({tensors_.data(), behind + joint_.closed.size()});
    for (size_t i = behind; i < first.size(); ++i) {
      if (first[i] < joint_.arguments) return true;
    }
    return false;
  }

  c10::IValue valueOf(const ir::Arg& number) const {
    switch (number.kind()) {
      case ir::Arg::Kind::Int:
        return number.toInt();
      case ir::Arg::Kind::Bool:
        return number.toBool();
      case ir::Arg::Kind::Float:
        return number.toFloat();
      case ir::Arg::Kind::SymInt:
        if (auto value = sym::evaluateInt(number.toSym(), symbols_)) return *value;
        break;
      case ir::Arg::Kind::SymBool:
        if (auto value = sym::evaluateBool(number.toSym(), symbols_)) return *value;
        break;
      case ir::Arg::Kind::SymFloat:
        if (auto value = sym::evaluateFloat(number.toSym(), symbols_)) return *value;
        break;
      default:
        break;
    }
    throw runtime::RunError("a result of the function is a number that has no value here");
  }

  // The memory of a tensor as one row of elements. It counts writes with the tensor.
  static at::Tensor flat(const at::Tensor& tensor) {
    at::Tensor row = tensor.detach();
    const int64_t one = 1, count = static_cast<int64_t>(tensor.storage().nbytes() / tensor.itemsize());
    row.unsafeGetTensorImpl()->set_allow_tensor_metadata_change(true);
    row.unsafeGetTensorImpl()->set_sizes_and_strides(c10::IntArrayRef(count), c10::IntArrayRef(one), 0);
    return row;
  }

  bool isCounted(size_t caller) const {
    return joint_.versions[caller] != 0 && tensors_[caller].defined() && !tensors_[caller].is_inference();
  }

  void noteVersions() {
    for (size_t i = 0; i < joint_.versions.size(); ++i) {
      if (isCounted(i)) until_.emplace_back(i, tensors_[i]._version() + joint_.versions[i]);
    }
    if (joint_.userWrites.empty()) return;
    measured_.resize(joint_.results.size());
    std::vector<bool> moving(joint_.callers());
    eachUserWrite([&](const VersionCheck::Counter& counter, size_t, size_t) {
      if (!counter.isResult) moving[counter.number] = true;
    });
    for (size_t i = 0; i < moving.size(); ++i) {
      if (moving[i] && !isCounted(i) && !tensors_[i].is_inference()) until_.emplace_back(i, tensors_[i]._version());
    }
  }

  template <typename Visit>
  void eachUserWrite(const Visit& visit) const {
    for (size_t i = 0; i < joint_.userWrites.size(); ++i) {
      for (size_t k = 0; k < joint_.userWrites[i].counters.size(); ++k) {
        for (const VersionCheck::Counter& counter : joint_.userWrites[i].counters[k]) visit(counter, i, k);
      }
    }
  }

  // What the user's operators have counted beyond what was known.
  void addMeasured(const aten::WriteMeter& meter) {
    eachUserWrite([&](const VersionCheck::Counter& counter, size_t call, size_t copy) {
      if (call >= meter.calls().size()) return;  // a back end has done otherwise
      uint32_t known = joint_.userWrites[call].counted, now = meter.calls()[call].at(copy);
      if (now <= known) return;
      if (counter.isResult) {
        measured_[counter.number] += now - known;
      } else {
        for (auto& [caller, version] : until_) version += caller == counter.number ? now - known : 0;
      }
    });
  }

  // Where the version counter of a result stands in the end.
  uint32_t versionOf(size_t result) const {
    return joint_.results[result].versions + (measured_.empty() ? 0 : measured_[result]);
  }

  void runForward(bool training) {
    if (training) saved_ = std::make_shared<Saved>();
    if (training && joint_.random) rememberGenerator();
    std::vector<at::Tensor> returned;
    {
      // Some kernels ask whether there will be a backward (what recurrent layers keep for it).
      c10::AutoGradMode mode(training);
      aten::BelowAutograd below;
      std::vector<at::Tensor> inputs;
      if (training || joint_.writes.size()) {
        inputs = primals_;
      } else {
        inputs = std::move(primals_);
      }
      if (plan_->detaches) {
        for (at::Tensor& input : inputs) input = input.detach();
      }
      aten::WriteMeter meter;
      returned = plan_->forward(std::move(inputs), {});
      addMeasured(meter);
      for (size_t i = 0; i < joint_.results.size(); ++i) {
        if (joint_.results[i].isInput) returned[i] = returned[i].clone();
      }
    }
    size_t results = joint_.results.size();
    tensors_.resize(joint_.tensors);
    for (size_t i = 0; i < results; ++i) tensors_[joint_.callers() + i] = returned[i];
    if (training) connect({returned.begin() + static_cast<std::ptrdiff_t>(results), returned.end()});
  }

  void rememberGenerator() {
    at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU);
    std::lock_guard held(generator.mutex());
    saved_->generator = generator.get_state();
  }

  static bool isHooked() { return !at::SavedTensorDefaultHooks::get_tls_state().stack.empty(); }

  const at::Tensor& result(size_t index) const { return tensors_[joint_.callers() + index]; }

  // --- for the backward ---

  void connect(const std::vector<at::Tensor>& saved) {
    makeNodes();
    noteMemories();
    packPrimals();
    {
      ResultsCounted counted(*this);
      pack(saved);
    }
    for (const Joint::BackwardWrite& write : joint_.backwardWrites) {
      saved_->written.push_back(tensors_[write.caller].detach());
      saved_->writesDifferentiable |= tensors_[write.caller].requires_grad();
    }
    for (const Joint::Sparse& sparse : joint_.sparse) {
      saved_->sparseSizes.push_back(tensors_[joint_.gradientOf[sparse.values]].sizes().vec());
    }
    saved_->symbols = symbols_;
    for (size_t i = 0; plan_->staged() && i < plan_->stages.size(); ++i) {
      saved_->readers.resize(plan_->savedTensors);
      for (size_t tensor : plan_->savedOf[i]) ++saved_->readers[tensor];
    }
  }

  // A node for each stage. Those that gradients come to last are the oldest, as in eager mode.
  void makeNodes() {
    const std::vector<Joint::Stage>& stages = plan_->stages;
    nodes_.resize(stages.size());
    for (size_t i = stages.size(); i-- > 0;) {
      nodes_[i] = aten::makeNode<Backward>(plan_, i, saved_);
      std::vector<at::Tensor> results;
      for (size_t tangent : stages[i].tangents) {
        size_t of = joint_.tangentOf[tangent];
        if (!Joint::isInner(of)) results.push_back(result(of));
      }
      nodes_[i]->give(results, symbols_);
      edges_.push_back({});
      edges_.back().reserve(stages[i].gradients.size());
      for (size_t gradient : stages[i].gradients) edges_.back().push_back(callerEdge(gradient));
    }
    std::reverse(edges_.begin(), edges_.end());
    if (!plan_->staged()) nodes_[0]->link(std::move(edges_[0]));
  }

  torch::autograd::Edge callerEdge(size_t gradient) const {
    // An edge to a leaf fixes the sizes that its gradient must have: there is none where no gradient goes.
    if (joint_.isIndices(gradient) || joint_.isCut(gradient) || !plan_->isReached[gradient]) return {};
    const at::Tensor& tensor = tensors_[joint_.gradientOf[gradient]];
    return tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor) : torch::autograd::Edge();
  }

  // From stage to stage: a node's edges are there before views of its results are.
  void linkStages() {
    plan_->lateOf[0].run(tensors_, symbols_);
    for (size_t i = plan_->stages.size(); i-- > 0;) {
      const std::vector<size_t>& gradients = plan_->stages[i].gradients;
      for (size_t k = 0; k < gradients.size(); ++k) {
        if (!joint_.isCut(gradients[k]) || !plan_->isReached[gradients[k]]) continue;
        size_t of = joint_.gradientOf[gradients[k]];
        if (Joint::isInner(of)) {
          edges_[i][k] = innerEdge(of - Joint::kInner);
          continue;
        }
        const at::Tensor& tensor = tensors_[of];
        if (tensor.requires_grad()) edges_[i][k] = torch::autograd::impl::gradient_edge(tensor);
      }
      nodes_[i]->link(std::move(edges_[i]));
      plan_->lateOf[i + 1].run(tensors_, symbols_);
    }
  }

  torch::autograd::Edge innerEdge(size_t inner) const {
    const Plan::Place& at = plan_->innerAt[inner];
    return nodes_[at.stage]->resultEdges()[at.tangent];
  }

  // What is saved of a result is what it is in the end, and not yet: views from before a write come first.
  class ResultsCounted {
   public:
    explicit ResultsCounted(const Call& call) {
      for (size_t i = 0; i < call.joint_.results.size(); ++i) {
        uint32_t versions = call.versionOf(i);
        if (versions == 0 || call.result(i).is_inference()) continue;
        c10::VariableVersion counter = call.result(i).unsafeGetTensorImpl()->version_counter();
        if (counter.current_version() >= versions) continue;
        before_.emplace_back(counter, counter.current_version());
        counter.set_version(versions);
      }
    }
    ~ResultsCounted() {
      for (auto& [counter, version] : before_) counter.set_version(version);
    }
    ResultsCounted(const ResultsCounted&) = delete;
    ResultsCounted& operator=(const ResultsCounted&) = delete;

   private:
    std::vector<std::pair<c10::VariableVersion, uint32_t>> before_;
  };

  static const c10::StorageImpl* memoryOf(const at::Tensor& tensor) {
    return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
  }

  // What is asked of each saved tensor is found once, by memory.
  void noteMemories() {
    for (const Write& write : joint_.writes) toBeWritten_.insert(memoryOf(tensors_[write.caller]));
    size_t visible = joint_.callers() + joint_.results.size();
    firstOn_.reserve(visible);
    for (size_t i = 0; i < visible; ++i) {
      const at::Tensor& tensor = tensors_[i];
      if (tensor.defined() && tensor.has_storage() && !tensor.is_inference()) firstOn_.emplace(memoryOf(tensor), i);
    }
  }

  // Will this memory be written when the graph has run?
  bool isToBeWritten(const at::Tensor& tensor) const {
    return !toBeWritten_.empty() && toBeWritten_.contains(memoryOf(tensor));
  }

  // A backward reads primals as they were: those that the function writes are copied before.
  void packPrimals() {
    // Hooks of the user's see what the backward reads; the rest is kept for differentiating twice.
    bool hooked = isHooked();
    std::vector<bool> read(hooked ? joint_.primals : 0);
    for (size_t i = 0; hooked && i < plan_->savedTensors; ++i) {
      if (plan_->cut.saved[i].primal) read[*plan_->cut.saved[i].primal] = true;
    }
    saved_->primals.reserve(joint_.primals);
    for (size_t i = 0; i < joint_.primals; ++i) {
      std::optional<WithoutHooks> without;
      if (hooked && !read[i]) without.emplace();
      bool changes = joint_.versions[joint_.sources[i].caller] != 0 || isToBeWritten(primals_[i]);
      saved_->primals.emplace_back(changes ? copyOf(i) : primals_[i], false);
    }
  }

  // With the strides it has, and what lies around it in memory if the function reads that too.
  at::Tensor copyOf(size_t primal) const {
    bool unreached = plan_->isUnreached[joint_.sources[primal].caller];
    at::Tensor tensor = unreached ? primals_[primal].detach() : primals_[primal];
    bool expanded = at::has_internal_overlap(tensor) == at::MemOverlap::Yes;
    if (plan_->exactOffset[primal]) {
      at::Tensor copy = flat(tensor).clone().as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
      return expanded ? copy : copy.copy_(tensor);  // so that it has the history
    }
    return expanded ? tensor.clone()
                    : at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).copy_(tensor);
  }

  void pack(const std::vector<at::Tensor>& saved) {
    saved_->tensors.resize(plan_->savedTensors);
    for (size_t i = 0; i < plan_->savedTensors; ++i) {
      if (plan_->cut.saved[i].primal) continue;
      at::Tensor tensor = plan_->cutByUser ? apartFromResults(saved[i]) : saved[i];
      bool isOutput = tensor.grad_fn() != nullptr;
      if (!isOutput) tensor = shareVersion(std::move(tensor));
      saved_->tensors[i] = SavedVariable(tensor, isOutput);
    }
    for (const sym::Node* number : plan_->savedNumbers) {
      std::optional<int64_t> value = sym::evaluateInt(number, symbols_);
      if (!value) throw runtime::RunError("the size " + sym::toString(number) + " has no value here");
      saved_->numbers.push_back(*value);
    }
  }

  // A partitioner of the user's may save what the caller gets and can write to, and eager mode does not save. What it
  // saves of the caller's own is kept without its history, which is not that of this function.
  at::Tensor apartFromResults(const at::Tensor& tensor) const {
    if (!tensor.has_storage()) return tensor;
    for (size_t i = 0; i < joint_.results.size(); ++i) {
      const at::Tensor& other = result(i);
      if (other.defined() && other.has_storage() && sameStorage(other, tensor)) return tensor.detach().clone();
    }
    return tensor.detach();
  }

  // What lies in memory that the caller sees counts the writes to it.
  at::Tensor shareVersion(at::Tensor tensor) const {
    if (!tensor.has_storage()) return tensor;
    if (isToBeWritten(tensor)) return tensor.clone();
    auto known = firstOn_.find(memoryOf(tensor));
    if (known == firstOn_.end()) return tensor;
    const at::Tensor& with = tensors_[known->second];
    if (!with.is_same(tensor)) {
      tensor = tensor.detach();  // an object of our own
      tensor.unsafeGetTensorImpl()->set_version_counter(with.unsafeGetTensorImpl()->version_counter());
    }
    bool written = known->second < joint_.callers() && joint_.versions[known->second] != 0;
    return written ? tensor.clone() : tensor;
  }

  // --- what the caller sees ---

  void redo() {
    for (const Write& write : joint_.writes) {
      if (!write.visible && !plan_->graphWrites) writeHidden(write);
    }
    // Views from before a write are made before the counters move.
    if (!plan_->early.empty()) plan_->early.run(tensors_, symbols_);
    for (const Write& write : joint_.writes) {
      if (write.visible && !plan_->graphWrites) writeVisibly(tensors_[write.caller], result(write.result));
    }
    moveVersions();
    for (const Joint::Resize& resize : joint_.resizes) resizeMemory(tensors_[resize.caller], resize.bytes);
    if (saved_ && plan_->staged()) {
      linkStages();
    } else if (!plan_->late.empty()) {
      plan_->late.run(tensors_, symbols_);
    }
    for (size_t i = 0; i < joint_.historyOf.size(); ++i) {
      if (joint_.historyOf[i]) tensors_[i].grad_fn();
    }
  }

  // From now on its history is that of its new contents, as after an in-place operator. For a view, and for one that
  // loses its history, autograd has to see the copy.
  static void writeVisibly(const at::Tensor& tensor, const at::Tensor& now) {
    bool moves = now.requires_grad() && !tensor.is_view() && tensor.scalar_type() == now.scalar_type() &&
                 tensor.device() == now.device();
    c10::AutoGradMode mode(!moves);
    tensor.copy_(now);
    if (moves) torch::autograd::impl::rebase_history(tensor, torch::autograd::impl::gradient_edge(now));
  }

  static void resizeMemory(const at::Tensor& tensor, int64_t bytes) {
    static const c10::OperatorHandle op =
        c10::Dispatcher::singleton().findSchemaOrThrow("inductor::resize_storage_bytes_", "");
    torch::jit::Stack stack{tensor.detach(), bytes};
    op.callBoxed(&stack);
  }

  void writeHidden(const Write& write) {
    aten::RunForReal below;
    const at::Tensor& contents = result(write.result);
    const at::Tensor& target = tensors_[write.caller];
    (write.flat ? flat(target) : target).copy_(contents);
  }

  void moveVersions() {
    auto moveTo = [](const at::Tensor& tensor, int64_t version) {
      while (tensor._version() < version) torch::autograd::impl::bump_version(tensor);
    };
    for (auto [caller, version] : until_) moveTo(tensors_[caller], version);
    for (size_t i = 0; i < joint_.results.size(); ++i) {
      if (versionOf(i) && !result(i).is_inference()) moveTo(result(i), versionOf(i));
    }
  }

  const std::shared_ptr<const Plan> plan_;
  const Joint& joint_;
  std::vector<at::Tensor> tensors_;  // by number
  std::vector<at::Tensor> primals_;
  sym::Assignment symbols_;
  std::vector<std::pair<size_t, int64_t>> until_;  // tensors of the caller, and the version they get
  std::vector<uint32_t> measured_;  // by result: how far the user's operators moved its version, if there are any
  // In training: what is kept, by stage a node and its edges.
  std::shared_ptr<Saved> saved_;
  std::vector<decltype(aten::makeNode<Backward>(plan_, size_t{0}, saved_))> nodes_;
  std::vector<torch::autograd::edge_list> edges_;
  std::unordered_set<const c10::StorageImpl*> toBeWritten_;
  std::unordered_map<const c10::StorageImpl*, size_t> firstOn_;  // by memory: the first tensor on it that is seen
};

}  // namespace

std::optional<std::vector<at::Tensor>> call(const std::shared_ptr<const Plan>& plan, std::vector<at::Tensor> arguments,
                                            std::vector<c10::IValue>* numbers) {
  Call call(plan, std::move(arguments));
  if (!call.mayRun()) return std::nullopt;
  if (numbers) *numbers = call.numbers();
  return call.run();
}

}  // namespace saker::aot
