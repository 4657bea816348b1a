#include "aot/backward.h"

#include <ATen/Context.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include "aot/twice.h"
#include "aten/enums.h"
#include "aten/trace_key.h"
#include "runtime/interpreter.h"

namespace saker::aot {

namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// A tensor of vmap or another transform, or of a class that answers for itself.
bool isStrange(const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  c10::DispatchKeySet keys = tensor.unsafeGetTensorImpl()->key_set();
  return keys.has(c10::DispatchKey::Batched) || keys.has(c10::DispatchKey::FuncTorchBatched) ||
         keys.has(c10::DispatchKey::FuncTorchGradWrapper) || keys.has(c10::DispatchKey::Python) ||
         keys.has(c10::DispatchKey::Functionalize);
}

// The common case, which takes no time to see: numbers that are there, in strides that are known.
bool isAsTold(const at::Tensor& tangent, const ir::TensorType& type) {
  if (type.symbolic || tangent._is_zerotensor() || tangent.is_conj() || tangent.is_neg()) return false;
  c10::IntArrayRef strides = tangent.strides();
  bool same = strides.size() == type.rank;
  for (size_t i = 0; same && i < strides.size(); ++i) same = strides[i] == type.stride(i).constant();
  return same;
}

}  // namespace

variable_list Backward::apply(variable_list&& tangents) {
  std::lock_guard held(mutex_);
  std::vector<bool> given, wanted;
  for (const at::Tensor& tangent : tangents) given.push_back(tangent.defined());
  if (std::find(given.begin(), given.end(), true) == given.end()) return variable_list(num_outputs());
  for (size_t i = 0; i < num_outputs(); ++i) wanted.push_back(task_should_compute_output(i));
  for (const Joint::Sparse& sparse : plan_->joint.sparse) wanted[sparse.indices] = wanted[sparse.values];
  saved_.versions.check(plan_->joint, saved_.symbols, *this, given, wanted);
  bool strange = std::any_of(tangents.begin(), tangents.end(), isStrange);
  // A partitioner of the user's makes one backward, for all tangents: zeros in the place of missing ones would meet
  // infinities that eager mode never sees.
  bool lacks = plan_->cutByUser && std::find(given.begin(), given.end(), false) != given.end();
  if (c10::GradMode::is_enabled() || strange || lacks) return followed(tangents);
  return compiled(std::move(tangents), given, wanted);
}

variable_list Backward::followed(const variable_list& tangents) {
  if (saved_.writesDifferentiable) {
    throw std::runtime_error(
        "the backward writes to an argument that requires grad, and cannot be differentiated itself "
        "(create_graph=True)");
  }
  std::vector<at::Tensor> primals;
  for (const SavedVariable& primal : saved_.primals) primals.push_back(primal.unpack(getptr()));
  return gradientsByAutograd(*plan_, primals, tangents, saved_.generator);
}

// The graph was made for a tangent of these strides, with all its numbers in memory. The gradient of a conjugate view
// may be one itself, and zeros may be none.
at::Tensor Backward::asTold(size_t index, at::Tensor tangent) const {
  const Joint& joint = plan_->joint;
  const ir::TensorType& type = *joint.program->graph->top()->parameters()[joint.primals + index]->tensor();
  if (isAsTold(tangent, type)) return tangent;
  runtime::Geometry told = runtime::geometryOf(type, saved_.symbols);
  if (tangent._is_zerotensor()) tangent = at::zeros(tangent.sizes(), tangent.options());
  tangent = tangent.resolve_conj().resolve_neg();
  if (tangent.strides() == c10::IntArrayRef(told.strides)) return tangent;
  at::Tensor copy = at::empty_strided(told.sizes, told.strides, tangent.options());
  return copy.copy_(tangent);
}

// A tensor of these sizes and strides, for what is not there or may have been written. It holds nothing; it has memory
// only if an operator imitates it (`aten::zero` copies what it is given, and then clears it).
at::Tensor Backward::layoutOf(size_t parameter) const {
  const ir::Value* value = plan_->cut.backward->top()->parameters()[parameter];
  const ir::TensorType& type = *value->tensor();
  runtime::Geometry geometry = runtime::geometryOf(type, saved_.symbols);
  auto options = at::TensorOptions().dtype(aten::fromDType(type.dtype)).device(aten::fromDevice(type.device));
  if (value->hasUses()) return at::empty_strided(geometry.sizes, geometry.strides, options);
  at::Tensor layout = at::empty({0}, options);
  layout.unsafeGetTensorImpl()->set_sizes_and_strides(geometry.sizes, geometry.strides);
  return layout;
}

variable_list Backward::compiled(variable_list tangents, const std::vector<bool>& given,
                                 const std::vector<bool>& wanted) {
  const Joint& joint = plan_->joint;
  if (plan_->foreign && !plan_->deterministic && at::globalContext().deterministicAlgorithms()) {
    throw std::runtime_error(
        "deterministic algorithms are asked for in this backward, and were not when the function was compiled: switch "
        "them on before its first call");
  }
  std::vector<at::Tensor> inputs;
  inputs.reserve(plan_->cut.saved.size() + tangents.size());
  const Plan::Backward& part = plan_->backward(given, wanted);
  for (size_t i = 0; i < plan_->savedTensors; ++i) {
    const std::optional<size_t>& primal = plan_->cut.saved[i].primal;
    inputs.push_back(part.imitates[i] ? layoutOf(i) : at::Tensor());
    if (!part.reads[i]) continue;
    inputs.back() = (primal ? saved_.primals[*primal] : saved_.tensors[i]).unpack(getptr());
    if (plan_->detaches) inputs.back() = inputs.back().detach();
  }
  inputs.resize(plan_->cut.saved.size());
  for (size_t i = 0; i < tangents.size(); ++i) {
    size_t parameter = plan_->cut.saved.size() + i;
    inputs.push_back(given[i]                   ? asTold(i, std::move(tangents[i]))
                     : part.imitates[parameter] ? layoutOf(parameter)
                                                : at::Tensor());
  }
  tangents.clear();
  // Nobody will come again: what was saved is let go when it has been used.
  if (!torch::autograd::get_current_graph_task_keep_graph()) free();
  variable_list gradients;
  {
    aten::BelowAutograd below;
    gradients = part.run(std::move(inputs), saved_.numbers);
  }
  write({gradients.begin() + static_cast<std::ptrdiff_t>(joint.gradientOf.size()), gradients.end()});
  gradients.resize(joint.gradientOf.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    bool reached = false;
    for (size_t k = 0; k < given.size(); ++k) reached |= given[k] && joint.reaches[k][i];
    if (!reached) gradients[i].reset();
  }
  makeSparse(gradients);
  return gradients;
}

void Backward::makeSparse(variable_list& gradients) const {
  const std::vector<Joint::Sparse>& sparse = plan_->joint.sparse;
  for (size_t i = 0; i < sparse.size(); ++i) {
    at::Tensor values = gradients[sparse[i].values], indices = std::move(gradients[sparse[i].indices]);
    gradients[sparse[i].indices].reset();
    if (!values.defined() || !indices.defined()) continue;
    gradients[sparse[i].values] = at::_sparse_coo_tensor_unsafe(
        indices, values, saved_.sparseSizes[i], values.options().layout(c10::kSparse), sparse[i].coalesced);
  }
}

// What the function's own backward writes to the caller's tensors.
void Backward::write(const variable_list& contents) const {
  for (size_t i = 0; i < contents.size(); ++i) {
    const at::Tensor& target = saved_.written[i];
    {
      aten::RunForReal below;
      target.copy_(contents[i]);
    }
    for (uint32_t k = 0; k < plan_->joint.backwardWrites[i].versions; ++k) torch::autograd::impl::bump_version(target);
  }
}

void Backward::free() {
  for (SavedVariable& saved : saved_.tensors) saved.reset_data();
  for (SavedVariable& primal : saved_.primals) primal.reset_data();
}

void Backward::release_variables() {
  std::lock_guard held(mutex_);
  free();
}

}  // namespace saker::aot
