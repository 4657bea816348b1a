#include "aot/backward.h"

#include <ATen/Context.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/graph_task.h>

#include "aot/twice.h"
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

}  // namespace

variable_list Backward::apply(variable_list&& tangents) {
  std::lock_guard held(mutex_);
  bool any = std::any_of(tangents.begin(), tangents.end(), [](const at::Tensor& t) { return t.defined(); });
  if (!any) return variable_list(num_outputs());
  bool strange = std::any_of(tangents.begin(), tangents.end(), isStrange);
  return c10::GradMode::is_enabled() || strange ? followed(tangents) : compiled(std::move(tangents));
}

variable_list Backward::followed(const variable_list& tangents) {
  std::vector<at::Tensor> primals;
  for (const SavedVariable& primal : saved_.primals) primals.push_back(primal.unpack(getptr()));
  return gradientsByAutograd(*plan_, primals, tangents, saved_.generator);
}

// A tangent of other strides is brought into those that the graph was made for.
at::Tensor Backward::asTold(size_t index, at::Tensor tangent) const {
  const Joint& joint = plan_->joint;
  const ir::TensorType& type = *joint.program->graph->top()->parameters()[joint.primals + index]->tensor();
  runtime::Geometry told = runtime::geometryOf(type, saved_.symbols);
  if (tangent.strides() == c10::IntArrayRef(told.strides)) return tangent;
  at::Tensor copy = at::empty_strided(told.sizes, told.strides, tangent.options());
  return copy.copy_(tangent);
}

variable_list Backward::compiled(variable_list tangents) {
  const Joint& joint = plan_->joint;
  if (plan_->foreign && !plan_->deterministic && at::globalContext().deterministicAlgorithms()) {
    throw std::runtime_error(
        "deterministic algorithms are asked for in this backward, and were not when the function was compiled: switch "
        "them on before its first call");
  }
  std::vector<at::Tensor> inputs;
  inputs.reserve(plan_->cut.saved.size() + tangents.size());
  for (size_t i = 0; i < plan_->savedTensors; ++i) {
    const std::optional<size_t>& primal = plan_->cut.saved[i].primal;
    inputs.push_back((primal ? saved_.primals[*primal] : saved_.tensors[i]).unpack(getptr()));
  }
  inputs.resize(plan_->cut.saved.size());
  std::vector<bool> given;
  for (size_t i = 0; i < tangents.size(); ++i) {
    given.push_back(tangents[i].defined());
    inputs.push_back(tangents[i].defined() ? asTold(i, std::move(tangents[i])) : at::Tensor());
  }
  tangents.clear();
  // Nobody will come again: what was saved is let go when it has been used.
  if (!torch::autograd::get_current_graph_task_keep_graph()) free();
  variable_list gradients;
  {
    aten::BelowAutograd below;
    gradients = plan_->backward(given)(std::move(inputs), saved_.numbers);
  }
  for (size_t i = 0; i < gradients.size(); ++i) {
    bool reached = false;
    for (size_t k = 0; k < given.size(); ++k) reached |= given[k] && joint.reaches[k][i];
    if (!reached) gradients[i].reset();
  }
  return gradients;
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
