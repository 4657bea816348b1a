#include "aten/context.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>

#include "aten/torch_version/version.h"
#include "ops/operator.h"

namespace saker::aten {

namespace {

// What PyTorch says of this machine; no without oneDNN.
bool cpuSupports(const char* query) {
  std::optional<c10::OperatorHandle> handle = c10::Dispatcher::singleton().findSchema({query, ""});
  if (!handle) return false;
  torch::jit::Stack stack;
  handle->callBoxed(&stack);
  return stack.at(0).toBool();
}

}  // namespace

std::shared_ptr<ir::Context> newContext() {
  static const bool bfloat16 = cpuSupports("mkldnn::_is_mkldnn_bf16_supported");
  static const bool half = cpuSupports("mkldnn::_is_mkldnn_fp16_supported");
  auto context = std::make_shared<ir::Context>(&ops::lookup);
  context->ambient().torch = &kTorchFacts;
  context->ambient().oneDnnTakesBFloat16 = bfloat16;
  context->ambient().oneDnnTakesHalf = half;
  return context;
}

}  // namespace saker::aten
