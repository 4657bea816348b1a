#include "aot/version_checks.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "aot/sharing.h"
#include "aten/enums.h"
#include "aten/torch_version/autograd_node.h"
#include "control/saved_sizes.h"
#include "runtime/geometry.h"

namespace saker::aot {

namespace {

// `a` is for all, `b` for the ones at these places.
bool meet(const std::vector<bool>& a, const std::vector<bool>& b, const std::vector<size_t>& places) {
  for (size_t i = 0; i < b.size(); ++i) {
    if (b[i] && a[places[i]]) return true;
  }
  return false;
}

// Stands in autograd's graph for the node that made a tensor, as errors name it.
struct MakerNode final : torch::autograd::Node {
  explicit MakerNode(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }

 private:
  std::string name_;
};

// The error is PyTorch's own: a tensor that looks like the one in question is saved, written, and asked for.
void raise(const VersionCheck& check, const sym::Assignment& symbols, const std::string& maker, uint32_t output,
           uint32_t now, uint32_t expected) {
  std::optional<at::AutoDispatchBelowADInplaceOrView> noView(std::in_place);
  at::TensorOptions options =
      at::TensorOptions().dtype(aten::fromDType(check.type->dtype)).device(aten::fromDevice(check.type->device));
  at::Tensor like = at::empty({}, options).expand(runtime::geometryOf(*check.type, symbols).sizes);
  noView.reset();
  like.unsafeGetTensorImpl()->set_version_counter(c10::VariableVersion(expected));
  if (!maker.empty()) torch::autograd::impl::set_gradient_edge(like, {aten::makeNode<MakerNode>(maker), output});
  torch::autograd::SavedVariable saved(like, /*is_output=*/false);
  c10::VariableVersion counter = torch::autograd::impl::version_counter(like);
  counter.set_version(now);
  saved.unpack();
}

}  // namespace

void SavedReads::addVisible(const at::Tensor& tensor, VersionCheck::Counter counter) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  visible_[tensor.storage().unsafeGetStorageImpl()].emplace_back(tensor, counter);
}

void SavedReads::note(const at::Tensor& read, const tracing::ReadAs* as) {
  auto reader = torch::autograd::get_current_node();
  if (reader && std::exchange(reader_, reader.get()) != reader.get()) {
    if (at::Tensor saved = control::savedForSizes(*reader); saved.defined()) add(saved, nullptr);
  }
  add(read, as);
}

void SavedReads::add(const at::Tensor& read, const tracing::ReadAs* as) {
  if (!read.has_storage()) return;
  auto known = visible_.find(read.storage().unsafeGetStorageImpl());
  if (known == visible_.end()) return;
  const ir::Value* value = trace_.valueOf(read);
  if (value->isParameter() ? value->index() >= parameters_ : value->def()->id() >= nodes_) return;
  auto visible = std::find_if(known->second.begin(), known->second.end(),
                              [&](const auto& each) { return sharesVersion(each.first, read); });
  if (visible == known->second.end()) return;
  VersionCheck check{.counter = visible->second, .type = value->tensor(), .maker = {}, .tangents = {}, .gradients = {}};
  const torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(read);
  if (as) {
    check.type = as->type;
    check.maker = as->maker;
    check.output = as->output;
  } else if (meta && meta->grad_fn_) {
    check.maker = meta->grad_fn_->name();
    check.output = meta->output_nr_;
    check.isArgument = !check.counter.isResult && value->isParameter();
  }
  reads_.push_back({torch::autograd::get_current_node().get(), std::move(check)});
}

VersionCheck::Counter SavedReads::counterOf(const at::Tensor& visible) const {
  const auto& onMemory = visible_.at(visible.storage().unsafeGetStorageImpl());
  return std::find_if(
             onMemory.begin(), onMemory.end(),
             [&](const auto& each) { return each.first.is_same(visible) || sharesVersion(each.first, visible); })
      ->second;
}

std::vector<VersionCheck> SavedReads::checks(const Paths& paths) const {
  std::vector<VersionCheck> out;
  std::set<std::pair<const torch::autograd::Node*, VersionCheck::Counter>> done;
  for (const Read& read : reads_) {
    if (!done.emplace(read.reader, read.check.counter).second) continue;
    out.push_back(read.check);
    out.back().tangents = paths.tangents(read.reader);
    out.back().gradients = paths.gradients(read.reader);
  }
  return out;
}

std::vector<autograd::Writable> writableAfter(const Joint& joint) {
  std::map<VersionCheck::Counter, autograd::Writable> byCounter;
  std::set<VersionCheck::Counter> written;
  for (size_t i = 0; i < joint.callerCounters.size(); ++i) {
    if (joint.versions[i] != 0) written.insert(joint.callerCounters[i]);
  }
  for (const Write& write : joint.writes) {
    if (write.caller < joint.callerCounters.size()) written.insert(joint.callerCounters[write.caller]);
  }
  for (size_t i = 0; i < joint.primals; ++i) {
    size_t caller = joint.sources[i].caller;
    // What only the backward met is read as it is then, in eager mode too.
    if (caller >= joint.callerCounters.size()) continue;
    // Of what the function writes a copy is kept.
    if (!written.contains(joint.callerCounters[caller])) byCounter[joint.callerCounters[caller]].primals.push_back(i);
  }
  for (size_t i = 0; i < joint.resultCounters.size(); ++i) {
    if (!joint.results[i].isInput) byCounter[joint.resultCounters[i]].results.push_back(i);
  }
  std::vector<autograd::Writable> out;
  for (auto& [counter, writable] : byCounter) {
    for (const VersionCheck& check : joint.checks) {
      if (check.counter == counter) writable.reads.push_back({check.tangents, check.gradients});
    }
    out.push_back(std::move(writable));
  }
  return out;
}

Versions::Versions(const Joint& joint, const std::vector<at::Tensor>& tensors) {
  expected_.reserve(joint.checks.size());
  for (const VersionCheck& check : joint.checks) {
    const at::Tensor& tensor = tensors[(check.counter.isResult ? joint.callers() : 0) + check.counter.number];
    const c10::VariableVersion& counter = tensor.unsafeGetTensorImpl()->version_counter();
    bool counts = counter.enabled();
    expected_.push_back({counter, counts ? counter.current_version() : 0, counts});
  }
}

void Versions::check(const Joint& joint, const Joint::Stage& stage, const sym::Assignment& symbols,
                     const EdgeOf& edgeOf, const std::vector<bool>& given, const std::vector<bool>& wanted) const {
  for (size_t i = 0; i < expected_.size(); ++i) {
    const auto& [counter, version, counts] = expected_[i];
    if (!counts || counter.current_version() == version) continue;
    const VersionCheck& check = joint.checks[i];
    if (!meet(check.tangents, given, stage.tangents) || !meet(check.gradients, wanted, stage.gradients)) continue;
    std::string maker = check.maker;
    uint32_t output = check.output;
    auto edge = std::find_if(stage.gradients.begin(), stage.gradients.end(),
                             [&](size_t gradient) { return joint.gradientOf[gradient] == check.counter.number; });
    if (!maker.empty() && check.isArgument && edge != stage.gradients.end()) {
      torch::autograd::Edge real = edgeOf(static_cast<size_t>(edge - stage.gradients.begin()));
      maker = real.function ? real.function->name() : "";
      output = real.input_nr;
    }
    raise(check, symbols, maker, output, counter.current_version(), version);
  }
}

}  // namespace saker::aot
