#include "control/sketch.h"

#include <ATen/ops/clone.h>

#include <stdexcept>

#include "capture/closed_bodies.h"
#include "ops/effects.h"
#include "ops/operator.h"
#include "passes/memory.h"
#include "passes/stages.h"
#include "runtime/shown.h"

namespace saker::control {

Sketch::Sketch(std::shared_ptr<ir::Context> context, std::vector<c10::IValue> objects)
    : untaped_(nullptr),
      trace_(std::make_shared<tracing::Trace>(tracing::Mode::Capture, tracing::Host{}, std::move(context))),
      held_(trace_->lock()),
      scope_(trace_) {
  // What autograd keeps for a backward is then the tensor that it was, and no copy of its data.
  trace_->allowEager();
  trace_->keepFrom(std::move(objects));
}

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

void makeOwn(std::vector<at::Tensor>& results, std::span<const at::Tensor> given, bool rowMajor) {
  for (size_t i = 0; i < results.size(); ++i) {
    at::Tensor& result = results[i];
    auto shares = [&](std::span<const at::Tensor> others) {
      for (const at::Tensor& other : others) {
        if (other.storage().unsafeGetStorageImpl() == result.storage().unsafeGetStorageImpl()) return true;
      }
      return false;
    };
    bool dense = rowMajor ? result.is_contiguous() : result.is_non_overlapping_and_dense();
    bool own = dense && !shares(given) && !shares(std::span(results).first(i)) && result.sym_storage_offset() == 0;
    if (!own) result = at::clone(result, rowMajor ? c10::MemoryFormat::Contiguous : c10::MemoryFormat::Preserve);
  }
}

namespace {

template <typename F>
bool anyNode(const ir::Region& region, F&& f) {
  for (const ir::Node* node = region.first(); node && !node->isReturn(); node = node->next()) {
    if (f(*node)) return true;
    for (const ir::Region* inner : node->regions()) {
      if (anyNode(*inner, f)) return true;
    }
  }
  return false;
}

bool writesAnything(const ir::Graph& body) {
  return anyNode(*body.top(), [](const ir::Node& node) { return ops::writes(node); });
}

// Does it keep from autograd that something is written, or read what is written past autograd, and not do so always?
bool hidesWrites(const ir::Graph& body) {
  auto hidden = [](const ir::Node& node) { return node.attributes().noGrad || node.op()->qualified == "aten::detach"; };
  if (!anyNode(*body.top(), [&](const ir::Node& node) { return !hidden(node); })) return false;
  passes::Memory memory(body);
  return anyNode(*body.top(), [&](const ir::Node& node) {
    if (!hidden(node)) return false;
    if (memory.writes(&node)) return true;
    for (const ir::Arg& arg : node.args()) {
      if (!arg.isValue() || !memory.isWritten(arg.toValue())) continue;
      for (size_t i = 0; i < node.resultCount(); ++i) {
        if (memory.classOf(node.result(i)) == memory.classOf(arg.toValue())) return true;
      }
    }
    return false;
  });
}

}  // namespace

void makeFunctional(ir::Graph& body) {
  for (bool written : runtime::writtenParameters(body)) {
    if (written) throw std::runtime_error("a body writes to a tensor that is not its own; write to a clone of it");
  }
  if (anyNode(*body.top(), [](const ir::Node& node) { return node.attributes().ownVersion; })) {
    throw std::runtime_error("a body uses .data of a tensor; use detach()");
  }
  passes::Stages stages;
  std::string refused;
  // Autograd is to find what the program did: it is made functional only where it must be.
  if (writesAnything(body)) {
    if (hidesWrites(body)) {
      throw OnlyAsPython("a body keeps from autograd what it writes in place; write to no tensor in it");
    }
    refused = stages.run(passes::Stage::Functional, "body", body, passes::kFunctional);
  }
  if (refused.empty()) refused = stages.run(passes::Stage::Simplify, "body", body, "fold-constants,cse,dce");
  if (!refused.empty()) throw std::runtime_error(refused);
}

std::unique_ptr<ir::Graph> Sketch::finish(std::vector<at::Tensor> results, std::vector<c10::IValue>& objects,
                                          bool own) {
  if (own) makeOwn(results, parameters_, /*rowMajor=*/true);
  std::vector<ir::Arg> returned;
  for (const at::Tensor& result : results) returned.push_back(trace_->resultArg(result));
  if (trace_->refused()) std::rethrow_exception(trace_->refused());
  if (!trace_->onlyEager().empty()) throw std::runtime_error(trace_->onlyEager());
  if (trace_->graph().top()->parameters().size() != parameters_.size()) {
    throw std::runtime_error("a body uses a tensor that it was not given");
  }
  trace_->graph().appendReturn(trace_->graph().top(), returned);
  objects = trace_->kept();
  std::unique_ptr<ir::Graph> made = trace_->takeGraph();
  makeFunctional(*made);
  // What it computes again has been computed before: where nothing reads that, it raises nothing either.
  passes::Stages().run(passes::Stage::Simplify, "body", *made, "dce-errors");
  return made;
}

}  // namespace saker::control
