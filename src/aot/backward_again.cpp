// A backward by autograd: the recorded forward runs again, where gradients are to be differentiated or tangents are
// such that no graph was made for.
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <exception>
#include <stdexcept>

#include "aot/backward.h"
#include "aot/exits.h"
#include "aot/twice.h"
#include "aten/enums.h"
#include "runtime/geometry.h"

namespace saker::aot {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// Primals as they were before the call. One that was written since raises, as where eager mode has saved it: unless
// nothing that this backward computes depends on what it holds.
std::vector<at::Tensor> Backward::primalsFor(const std::vector<bool>& given, const std::vector<bool>& wanted,
                                             std::exception_ptr& gone) {
  std::vector<at::Tensor> primals;
  std::vector<bool> needed;
  for (const SavedVariable& primal : saved_->primals) {
    try {
      primals.push_back(primal.unpack(getptr()));
    } catch (const c10::Error&) {
      if (!plan_->foreign && needed.empty()) needed = plan_->readPrimals(plan_->backward(stage_, given, wanted));
      if (needed.empty() || needed[primals.size()]) throw;
      gone = std::current_exception();
      primals.push_back(inPlaceOfPrimal(primals.size()));
    }
  }
  return primals;
}

// Zeros where a gradient of the primal is led to the same place.
at::Tensor Backward::inPlaceOfPrimal(size_t primal) const {
  const Joint& joint = plan_->joint;
  const ir::TensorType& type = *joint.program->graph->top()->parameters()[primal]->tensor();
  runtime::Geometry geometry = runtime::geometryOf(type, saved_->symbols);
  auto options = at::TensorOptions().dtype(aten::fromDType(type.dtype)).device(aten::fromDevice(type.device));
  at::Tensor zeros = at::empty_strided(geometry.sizes, geometry.strides, options).zero_();
  for (size_t i = 0; i < stage().gradients.size(); ++i) {
    size_t gradient = stage().gradients[i];
    if (joint.isCut(gradient) || joint.gradientOf[gradient] != joint.sources[primal].caller) continue;
    if (torch::autograd::Edge to = edge(i); to.function) torch::autograd::impl::set_gradient_edge(zeros, to);
  }
  return zeros;
}

variable_list Backward::followed(const variable_list& tangents, const std::vector<bool>& given,
                                 const std::vector<bool>& wanted) {
  if (saved_->writesDifferentiable) {
    throw std::runtime_error(
        "the backward writes to an argument that requires grad, and cannot be differentiated itself "
        "(create_graph=True)");
  }
  std::exception_ptr gone;  // why a primal is not there any more as it was
  std::vector<at::Tensor> primals = primalsFor(given, wanted, gone);
  letGo(given, wanted);
  std::vector<torch::autograd::Edge> called = resultEdges(), edges;
  for (size_t i = 0; i < stage().gradients.size(); ++i) edges.push_back(edge(i));
  bool leads = plan_->backwardHolds && c10::GradMode::is_enabled();
  torch::autograd::edge_list ran;
  variable_list found;
  try {
    found = gradientsByAutograd(*plan_, stage_, primals, tangents, wanted, edges, called, saved_->generator,
                                leads ? &ran : nullptr);
  } catch (...) {
    if (gone) std::rethrow_exception(gone);  // an operator may have failed on what stands in its place
    throw;
  }
  if (leads) leadTo(std::move(ran));
  return found;
}

// A backward of the user's need not be linear in what arrives: it is to run once in each pass. The functions have run
// again, so that gradients can be differentiated; what arrives at the results is led to this run when the pass is over.
void Backward::leadTo(torch::autograd::edge_list ran) {
  torch::autograd::Engine::get_default_engine().queue_callback([self = getptr(), ran = std::move(ran)] {
    auto& backward = static_cast<Backward&>(*self);
    std::lock_guard held(backward.saved_->lock);
    if (!backward.delivery_) {
      backward.leads_ = true;
      backward.next_edges() = ran;
      return;
    }
    std::vector<torch::autograd::edge_list> edges(backward.delivery_->entries);
    for (size_t i = 0; i < ran.size(); ++i) edges[backward.delivery_->entryOf[i]].push_back(ran[i]);
    for (size_t i = 0; i < edges.size(); ++i) {
      if (aten::NodePtr entry = backward.around_[i].lock()) static_cast<Entry&>(*entry).leadTo(std::move(edges[i]));
    }
  });
}

}  // namespace saker::aot
