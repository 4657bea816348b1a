#include "aot/callers.h"

#include <ATen/ops/as_strided.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "capture/undo.h"

namespace saker::aot {

using torch::autograd::Edge;

Edge edgeOf(const at::Tensor& tensor) {
  return tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor) : Edge();
}

bool hasHooks(const at::Tensor& tensor) {
  const torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta && (!meta->hooks_.empty() || meta->retains_grad_);
}

Callers::Callers(const tracing::Host& host, std::span<const at::Tensor> arguments, const JointOptions& options)
    : given(arguments.begin(), arguments.end()),
      shared(options.writesNone ? eachAlone(arguments) : findShared(arguments)),
      captured_(toCapture()),
      capture(host, captured_, options.dynamic, memories_, options.context) {}

// Arguments that are views of one tensor and overlap are given as that tensor, behind the arguments.
std::vector<at::Tensor> Callers::toCapture() {
  std::vector<at::Tensor> tensors = given;
  memories_ = shared.memories;
  for (size_t i = 0; i < given.size(); ++i) {
    if (shared.baseOf[i]) tensors[i].reset();
  }
  for (size_t argument : shared.bases) {
    memories_.push_back(tensors.size());
    tensors.push_back(autogradBase(given[argument]));
  }
  return tensors;
}

void Callers::makeStandIns(Joint& joint) {
  joint.arguments = given.size();
  joint.bases = shared.bases;
  for (size_t i = 0; i < given.size(); ++i) first_.emplace(given[i].unsafeGetTensorImpl(), i);
  standIns = capture.arguments();
  for (const at::Tensor& standIn : standIns) {
    edges.push_back(standIn.defined() ? edgeOf(standIn) : Edge());
    values.push_back(standIn.defined() ? capture.trace().valueOf(standIn) : nullptr);
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (shared.baseOf[i]) makeMember(i, given.size() + *shared.baseOf[i]);
  }
  noteMembers(joint);
  shareVersions();
  for (const at::Tensor& standIn : standIns) {
    before.push_back(standIn.defined() ? standIn.storage() : c10::Storage());
    requiredGrad.push_back(standIn.defined() && standIn.requires_grad());
  }
}

void Callers::makeMember(size_t argument, size_t base) {
  const at::Tensor& view = given[argument];
  if (view.is_same(real(base))) {
    standIns[argument] = standIns[base];
  } else if (size_t first = firstOf(argument); first != argument) {
    standIns[argument] = standIns[first];
  } else {
    c10::InferenceMode normal(false);
    c10::AutoGradMode mode(view.requires_grad());
    standIns[argument] = at::as_strided(standIns[base], view.sizes(), view.strides(), view.storage_offset());
  }
  values[argument] = capture.trace().valueOf(standIns[argument]);
}

// Those that share memory lie in it in a way that the graph counts on.
void Callers::noteMembers(Joint& joint) const {
  std::vector<size_t> members(given.size());
  for (size_t memory : shared.memories) ++members[memory];
  for (size_t i = 0; i < given.size(); ++i) {
    if (members[shared.memories[i]] < 2 || !given[i].defined() || firstOf(i) != i) continue;
    joint.members.push_back({i, given[i].sizes().vec(), given[i].strides().vec(), given[i].storage_offset()});
  }
}

// Tensors on one memory may count their writes together, overlapping or not.
void Callers::shareVersions() {
  std::unordered_map<const c10::StorageImpl*, std::vector<size_t>> onMemory;
  for (size_t caller = 0; caller < standIns.size(); ++caller) {
    if (!standIns[caller].defined() || !real(caller).has_storage()) continue;
    std::vector<size_t>& others = onMemory[real(caller).storage().unsafeGetStorageImpl()];
    if (!standIns[caller].is_inference()) shareVersion(caller, others);
    others.push_back(caller);
  }
}

void Callers::shareVersion(size_t caller, const std::vector<size_t>& others) {
  for (size_t i : others) {
    if (!sharesVersion(real(i), real(caller))) continue;
    if (!standIns[i].is_same(standIns[caller]) && !sharesVersion(standIns[i], standIns[caller])) {
      standIns[caller].unsafeGetTensorImpl()->set_version_counter(standIns[i].unsafeGetTensorImpl()->version_counter());
    }
    return;
  }
}

void Callers::addClosed(Joint& joint) {
  for (const tracing::Input& input : capture.trace().inputs()) {
    for (const at::Tensor& argument : given) {
      if (argument.defined() && shareMemory(argument, input.tensor)) throw NotAheadOfTime(Why::ClosesOverArgument);
    }
    joint.closed.push_back(input.tensor);
    standIns.push_back(input.tensor);
    values.push_back(input.value);
    edges.push_back(edgeOf(input.tensor));
    before.push_back(input.storage);
    requiredGrad.push_back(input.tensor.requires_grad());
  }
}

bool Callers::isCaller(const at::Tensor& tensor) const {
  return std::any_of(standIns.begin(), standIns.end(), [&](const at::Tensor& t) { return t.is_same(tensor); });
}

size_t Callers::firstOf(size_t argument) const {
  return given[argument].defined() ? first_.at(given[argument].unsafeGetTensorImpl()) : argument;
}

bool Callers::sharesMemory(size_t caller) const {
  for (size_t i = 0; i < memories_.size(); ++i) {
    if (i != caller && memories_[i] == memories_[caller]) return true;
  }
  return false;
}

bool Callers::anythingWritten() {
  tracing::Trace& trace = capture.trace();
  if (!trace.userWrites().empty()) return true;
  for (const at::Tensor& standIn : standIns) {
    if (standIn.defined() && (standIn.is_inference() || standIn._version() != 0)) return true;
  }
  for (const tracing::Input& input : trace.inputs()) {
    if (trace.undo().writesTo(input.tensor)) return true;
  }
  return false;
}

}  // namespace saker::aot
