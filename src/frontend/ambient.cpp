#include "frontend/ambient.h"

#include <ATen/Context.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

namespace saker::frontend {

Ambient Ambient::now() {
  at::Context& context = at::globalContext();
  Ambient state{};
  state.gradMode = c10::GradMode::is_enabled();
  state.inferenceMode = c10::InferenceMode::is_enabled();
  state.autocastCache = at::autocast::is_autocast_cache_enabled();
  state.deterministic = context.deterministicAlgorithms();
  state.deterministicWarnOnly = context.deterministicAlgorithmsWarnOnly();
  state.mkldnn = context.userEnabledMkldnn();
  state.attention = {context.userEnabledFlashSDP(), context.userEnabledMemEfficientSDP(), context.userEnabledMathSDP(),
                     context.userEnabledCuDNNSDP()};
  size_t i = 0;
  for (c10::DeviceType device : {c10::kCPU, c10::kCUDA}) {
    state.autocast[i] = at::autocast::is_autocast_enabled(device);
    state.autocastType[i++] = at::autocast::get_autocast_dtype(device);
  }
  state.defaultType = c10::get_default_dtype_as_scalartype();
  state.functionModes = at::impl::PythonTorchFunctionTLS::stack_len();
  state.dispatchModes = c10::impl::TorchDispatchModeTLS::stack_len();
  state.functorch = c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
  return state;
}

std::string Ambient::difference(const Ambient& other) const {
  if (gradMode != other.gradMode) return "grad mode";
  if (inferenceMode != other.inferenceMode) return "inference mode";
  if (autocast != other.autocast || autocastType != other.autocastType) return "autocast";
  if (defaultType != other.defaultType) return "the default dtype";
  if (functionModes != other.functionModes || dispatchModes != other.dispatchModes) return "modes of PyTorch";
  if (attention != other.attention) return "choice of kernels for attention";
  if (functorch != other.functorch) return "torch.func transforms";
  return "deterministic or precision flags";
}

}  // namespace saker::frontend
