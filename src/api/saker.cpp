#include "saker/saker.h"

#include <algorithm>
#include <ostream>
#include <span>

#include "capture/capture.h"
#include "capture/deferred.h"
#include "capture/errors.h"
#include "ir/print.h"
#include "runtime/program.h"

namespace saker {

const char* version() { return SAKER_VERSION; }

Tensors Graph::operator()(const Tensors& inputs) const {
  std::vector<c10::IValue> returned;
  try {
    returned = runtime::run(*program_, inputs);
  } catch (const runtime::RunError& error) {
    throw RunError(error.what());
  }
  Tensors results;
  for (c10::IValue& value : returned) results.push_back(value.isTensor() ? std::move(value).toTensor() : at::Tensor());
  return results;
}

Graph Graph::functional() const { return Graph(tracing::makeFunctional(program_)); }

std::string Graph::text() const { return ir::print(*program_->graph); }
size_t Graph::size() const { return program_->graph->liveNodes() - 1; }  // `return` is a node
std::vector<std::string> Graph::guards() const { return program_->guards(); }

std::ostream& operator<<(std::ostream& out, const Graph& graph) { return out << graph.text(); }

namespace {

// As the graph gives them.
std::vector<c10::IValue> callEagerly(const Function& function, std::span<const at::Tensor> inputs) {
  std::vector<c10::IValue> results;
  for (at::Tensor& result : function({inputs.begin(), inputs.end()})) results.emplace_back(std::move(result));
  return results;
}

}  // namespace

Graph capture(const Function& function, const Tensors& inputs, const std::vector<Dynamic>& dynamic,
              const Tensors& cleared) {
  std::vector<tracing::DynamicSize> sizes;
  for (const Dynamic& size : dynamic) sizes.push_back({size.input, size.dim, size.name});
  try {
    tracing::Capture recording({}, inputs, sizes);
    recording.trace().noteInferenceMode();
    recording.takeGradients(inputs);
    for (const at::Tensor& tensor : cleared) {
      auto same = [&](const at::Tensor& input) { return input.is_same(tensor); };
      auto input = static_cast<size_t>(std::find_if(inputs.begin(), inputs.end(), same) - inputs.begin());
      recording.expectCleared(input < inputs.size() ? recording.arguments()[input] : tensor);
    }
    std::vector<c10::IValue> outputs = callEagerly(function, recording.arguments());
    std::shared_ptr<runtime::Program> program = recording.finish(outputs);
    if (program->userGradients) {
      program->function = [function](std::span<const at::Tensor> given) { return callEagerly(function, given); };
    }
    return Graph(std::move(program));
  } catch (const tracing::CaptureError& error) {
    throw CaptureError(error.what());
  }
}

Deferred::Deferred() : block_(std::make_unique<tracing::DeferredBlock>(tracing::Host{})) {}

Deferred::~Deferred() {
  if (!ran_) run();
}

void Deferred::flush() { block_->flush(); }

void Deferred::run() {
  ran_ = true;
  block_->leave();
}

}  // namespace saker
