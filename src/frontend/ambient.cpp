#include "frontend/ambient.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/forward_grad.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include "aten/autocast_state.h"

namespace saker::frontend {

namespace {

// Looks through the handlers of the frames that are suspended around this one, as sys.exc_info() does.
bool isHandling() {
  for (const _PyErr_StackItem* at = PyThreadState_Get()->exc_info; at; at = at->previous_item) {
    if (at->exc_value && at->exc_value != Py_None) return true;
  }
  return false;
}

}  // namespace

Ambient Ambient::now() {
  at::Context& context = at::globalContext();
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  Ambient state{};
  state.gradMode = c10::GradMode::is_enabled();
  state.inferenceMode = c10::InferenceMode::is_enabled();
  state.autocastCache = aten::autocast::keepsCasts();
  state.deterministic = context.deterministicAlgorithms();
  state.deterministicWarnOnly = context.deterministicAlgorithmsWarnOnly();
  state.mkldnn = context.userEnabledMkldnn();
  state.attention = {context.userEnabledFlashSDP(), context.userEnabledMemEfficientSDP(), context.userEnabledMathSDP(),
                     context.userEnabledCuDNNSDP()};
  size_t i = 0;
  for (c10::DeviceType device : {c10::kCPU, c10::kCUDA}) {
    state.autocastType[i++] = aten::autocast::dtypeOf(device);
  }
  state.autocast = {!keys.excluded_.has(c10::DispatchKey::AutocastCPU),
                    !keys.excluded_.has(c10::DispatchKey::AutocastCUDA)};
  state.defaultType = c10::get_default_dtype_as_scalartype();
  state.functionModes = at::impl::PythonTorchFunctionTLS::stack_len();
  state.dispatchModes = c10::impl::TorchDispatchModeTLS::stack_len();
  state.functionState = static_cast<uint8_t>(at::impl::PythonTorchFunctionTLS::get_disabled_state());
  const at::impl::SavedTensorDefaultHooksTLS& hooks = at::SavedTensorDefaultHooks::get_tls_state();
  state.savedTensorHooks = !hooks.stack.empty() || hooks.disabled_error_message;
  state.anomaly = torch::autograd::AnomalyMode::is_enabled();
  state.dualNumbers = torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr;
  state.functorch = keys.included_.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
  state.jitTracing = torch::jit::tracer::isTracing();
  state.belowAutograd = keys.excluded_.has(c10::DispatchKey::AutogradFunctionality);
  state.belowViews = keys.excluded_.has(c10::DispatchKey::ADInplaceOrView);
  state.handling = isHandling();
  return state;
}

std::string Ambient::difference(const Ambient& other) const {
  if (gradMode != other.gradMode) return "grad mode";
  if (inferenceMode != other.inferenceMode) return "inference mode";
  if (autocast != other.autocast || autocastType != other.autocastType) return "autocast";
  if (defaultType != other.defaultType) return "default dtype";
  if (functionModes != other.functionModes || dispatchModes != other.dispatchModes) return "modes of PyTorch";
  if (functionState != other.functionState) return "use of __torch_function__";
  if (savedTensorHooks != other.savedTensorHooks) return "hooks on saved tensors";
  if (anomaly != other.anomaly) return "anomaly mode";
  if (dualNumbers != other.dualNumbers) return "level of dual numbers";
  if (attention != other.attention) return "choice of kernels for attention";
  if (functorch != other.functorch) return "torch.func transforms";
  if (belowAutograd != other.belowAutograd || belowViews != other.belowViews) return "place below autograd";
  if (handling != other.handling) return "exception that is being handled";
  return "deterministic or precision flags";
}

Why Ambient::whoSeesOperators() const {
  if (functorch) return Why::AroundTransform;
  if (dispatchModes > 0) return Why::AroundMode;
  if (savedTensorHooks) return Why::AroundSavedHooks;
  if (anomaly) return Why::AroundAnomaly;
  return dualNumbers ? Why::AroundDual : Why::AroundTracing;
}

Flags::Flags() {
  at::Context& context = at::globalContext();
  deterministic_ = context.deterministicAlgorithms();
  warnOnly_ = context.deterministicAlgorithmsWarnOnly();
  fills_ = context.deterministicFillUninitializedMemory();
  mkldnn_ = context.userEnabledMkldnn();
  cudnn_ = context.userEnabledCuDNN();
  benchmark_ = context.benchmarkCuDNN();
  deterministicCudnn_ = context.deterministicCuDNN();
  threads_ = at::get_num_threads();
  defaultType_ = c10::get_default_dtype_as_scalartype();
  hooks_ = at::SavedTensorDefaultHooks::get_tls_state();
}

void Flags::restore() const {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(deterministic_, warnOnly_);
  context.setDeterministicFillUninitializedMemory(fills_);
  context.setUserEnabledMkldnn(mkldnn_);
  context.setUserEnabledCuDNN(cudnn_);
  context.setBenchmarkCuDNN(benchmark_);
  context.setDeterministicCuDNN(deterministicCudnn_);
  if (at::get_num_threads() != threads_) at::set_num_threads(threads_);
  c10::set_default_dtype(c10::scalarTypeToTypeMeta(defaultType_));
  at::SavedTensorDefaultHooks::set_tls_state(hooks_);
}

PyObject* functionModeAt(int64_t index) {
  if (index >= at::impl::PythonTorchFunctionTLS::stack_len()) return nullptr;
  return at::impl::PythonTorchFunctionTLS::get_stack_at(index)->ptr(getPyInterpreter());
}

std::vector<Ref> functionModes() {
  std::vector<Ref> out;
  for (int64_t i = 0; i < at::impl::PythonTorchFunctionTLS::stack_len(); ++i) {
    out.push_back(Ref::borrow(functionModeAt(i)));
  }
  return out;
}

void setFunctionModes(const std::vector<Ref>& modes) {
  while (at::impl::PythonTorchFunctionTLS::stack_len() > 0) at::impl::PythonTorchFunctionTLS::pop_stack();
  for (const Ref& mode : modes) {
    at::impl::PythonTorchFunctionTLS::push_onto_stack(
        std::make_shared<c10::SafePyObject>(Ref(mode).release(), getPyInterpreter()));
  }
}

}  // namespace saker::frontend
