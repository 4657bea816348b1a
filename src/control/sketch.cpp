#include "control/sketch.h"

#include <ATen/ops/clone.h>

#include <stdexcept>

#include "capture/closed_bodies.h"
#include "passes/stages.h"
#include "runtime/shown.h"

namespace saker::control {

Sketch::Sketch(std::shared_ptr<ir::Context> context)
    : untaped_(nullptr),
      trace_(std::make_shared<tracing::Trace>(tracing::Mode::Capture, tracing::Host{}, std::move(context))),
      held_(trace_->lock()),
      scope_(trace_) {}

Sketch::~Sketch() {
  parameters_.clear();
  trace_->abandon({ops::Reason::Unsupported, "this tensor was made for a body of an operator, and has no data"});
}

at::Tensor Sketch::add(const ir::TensorType* type, bool requiresGrad) {
  at::Tensor made = trace_->makeTensor(trace_->graph().addParameter(trace_->graph().top(), type), nullptr);
  if (requiresGrad) made.set_requires_grad(true);
  parameters_.push_back(made);
  return made;
}

at::Tensor Sketch::addRowMajor(const ir::TensorType* type) {
  ir::TensorSpec spec(*type);
  tracing::makeRowMajor(spec);
  return add(trace_->context()->types().tensor(spec));
}

void makeOwn(std::vector<at::Tensor>& results, std::span<const at::Tensor> given) {
  for (size_t i = 0; i < results.size(); ++i) {
    at::Tensor& result = results[i];
    auto shares = [&](std::span<const at::Tensor> others) {
      for (const at::Tensor& other : others) {
        if (other.storage().unsafeGetStorageImpl() == result.storage().unsafeGetStorageImpl()) return true;
      }
      return false;
    };
    bool own = !shares(given) && !shares(std::span(results).first(i)) && result.is_contiguous() &&
               result.sym_storage_offset() == 0;
    if (!own) result = at::clone(result, c10::MemoryFormat::Contiguous);
  }
}

void makeFunctional(ir::Graph& body) {
  for (bool written : runtime::writtenParameters(body)) {
    if (written) throw std::runtime_error("a body writes to a tensor that is not its own; write to a clone of it");
  }
  passes::Stages stages;
  std::string refused = stages.run(passes::Stage::Functional, "body", body, passes::kFunctional);
  if (refused.empty()) refused = stages.run(passes::Stage::Simplify, "body", body, passes::kSimplifyKeepingCopies);
  if (!refused.empty()) throw std::runtime_error(refused);
}

std::unique_ptr<ir::Graph> Sketch::finish(std::vector<at::Tensor> results, std::vector<c10::IValue>& objects) {
  makeOwn(results, parameters_);
  std::vector<ir::Arg> returned;
  for (const at::Tensor& result : results) returned.push_back(trace_->resultArg(result));
  if (trace_->refused()) std::rethrow_exception(trace_->refused());
  if (trace_->graph().top()->parameters().size() != parameters_.size()) {
    throw std::runtime_error("a body uses a tensor that it was not given");
  }
  trace_->graph().appendReturn(trace_->graph().top(), returned);
  objects = trace_->kept();
  std::unique_ptr<ir::Graph> made = trace_->takeGraph();
  makeFunctional(*made);
  return made;
}

}  // namespace saker::control
