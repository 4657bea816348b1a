#include "capture/whole.h"

#include <ATen/ops/_unsafe_view.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "aten/trace_key.h"
#include "capture/call.h"
#include "capture/run_now.h"
#include "capture/tape.h"
#include "capture/trace.h"
#include "capture/trace_tensor.h"
#include "capture/user_write.h"

namespace saker::tracing {

namespace {

using Row = std::pair<std::string_view, DirectUse>;

// PyTorch's operators with such kernels. The sweep replay_opinfo.py in tests looks for others: it replays every
// operator on other data than it was recorded with.
constexpr std::array kRows = {
    Row{"aten::_choose_qparams_per_tensor", DirectUse::Memory},
    Row{"aten::_pack_padded_sequence_backward", DirectUse::Memory},
    Row{"aten::_pad_packed_sequence", DirectUse::Memory},
    Row{"aten::_reshape_from_tensor", DirectUse::Sizes},
    Row{"aten::_rowwise_prune", DirectUse::Sizes},
    Row{"aten::_saturate_weight_to_fp16", DirectUse::Memory},
    Row{"aten::_shape_as_tensor", DirectUse::Memory},
    Row{"aten::_sobol_engine_draw", DirectUse::Memory},
    Row{"aten::_sobol_engine_ff_", DirectUse::Memory},
    Row{"aten::_sobol_engine_initialize_state_", DirectUse::Memory},
    Row{"aten::_sobol_engine_scramble_", DirectUse::Memory},
    Row{"aten::_wrapped_linear_prepack", DirectUse::Memory},
    Row{"aten::_wrapped_quantized_linear_prepacked", DirectUse::Memory},
    Row{"aten::choose_qparams_optimized", DirectUse::Memory},
    Row{"aten::ctc_loss.Tensor", DirectUse::Memory},
    Row{"aten::detach_", DirectUse::Autograd},
    Row{"aten::fbgemm_linear_fp16_weight", DirectUse::Memory},
    Row{"aten::fbgemm_linear_fp16_weight_fp32_activation", DirectUse::Memory},
    Row{"aten::fbgemm_linear_int8_weight", DirectUse::Memory},
    Row{"aten::fbgemm_linear_int8_weight_fp32_activation", DirectUse::Memory},
    Row{"aten::fbgemm_linear_quantize_weight", DirectUse::Memory},
    Row{"aten::fbgemm_pack_gemm_matrix_fp16", DirectUse::Memory},
    Row{"aten::fbgemm_pack_quantized_matrix", DirectUse::Memory},
    Row{"aten::fbgemm_pack_quantized_matrix.KN", DirectUse::Memory},
    Row{"aten::gru.data", DirectUse::Memory},
    Row{"aten::lstm.data", DirectUse::Memory},
    Row{"aten::max_pool1d", DirectUse::MemoryWithoutGrad},
    Row{"aten::quantized_gru_cell", DirectUse::Memory},
    Row{"aten::quantized_lstm_cell", DirectUse::Memory},
    Row{"aten::quantized_rnn_relu_cell", DirectUse::Memory},
    Row{"aten::quantized_rnn_tanh_cell", DirectUse::Memory},
    Row{"aten::requires_grad_", DirectUse::Autograd},
    Row{"aten::retain_grad", DirectUse::Autograd},
    Row{"aten::rnn_relu.data", DirectUse::Memory},
    Row{"aten::rnn_tanh.data", DirectUse::Memory},
    Row{"aten::set_data", DirectUse::Autograd},
    Row{"aten::tensor_split.tensor_indices_or_sections", DirectUse::Sizes},
};

// A kernel that is written in Python is followed like the rest of the program.
bool isWrittenInPython(const c10::OperatorHandle& op) {
  std::string registrations = op.dumpState();
  size_t line = registrations.find("CompositeImplicitAutograd[alias]");
  if (line == std::string::npos) return false;
  return registrations.substr(line, registrations.find('\n', line) - line).find(".py:") != std::string::npos;
}

DirectUse find(const c10::OperatorHandle& op) {
  if (!op.hasSchema()) return DirectUse::None;
  std::string name = nameOf(op);
  std::string_view space = std::string_view(name).substr(0, name.find("::"));
  if (space == "aten") {
    for (const Row& row : kRows) {
      if (row.first == name) return row.second;
    }
    return DirectUse::None;
  }
  constexpr std::array kOurs = {"prim", "prims", "profiler", "saker", "saker_on_copies", "inductor", "mkldnn"};
  for (std::string_view each : kOurs) {
    if (space == each) return DirectUse::None;
  }
  bool composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  return composite && !isWrittenInPython(op) ? DirectUse::Unknown : DirectUse::None;
}

bool isDifferentiated(const Call& call) {
  return c10::GradMode::is_enabled() && call.values[0].isTensor() && call.values[0].toTensor().requires_grad();
}

void pass(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  op.redispatchBoxed(keys & aten::kBelowCall, stack);
}

// The same numbers by an operator that is none of these. It gives a view, and the operator called does not.
void poolWithIndices(torch::jit::Stack* stack) {
  static const c10::OperatorHandle pool =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::max_pool1d_with_indices", "");
  pool.callBoxed(stack);
  stack->pop_back();
  at::Tensor pooled = torch::jit::pop(*stack).toTensor();
  stack->emplace_back(at::_unsafe_view_symint(pooled, pooled.sym_sizes()));
}

// What it reads is computed first; then it runs as without the trace.
void runSettled(Trace& trace, const Call& call) {
  {
    auto held = trace.lock();
    RunForReal real;
    trace.flush();
  }
  c10::impl::ForceDispatchKeyGuard seen(call.surroundings.included_ - aten::kRecordingKeys,
                                        call.surroundings.excluded_ | aten::kRecordingKeys);
  call.op.redispatchBoxed((call.keys & aten::kBelowCall) - aten::kTraceKeys, call.stack);
}

bool hasOrdinary(const Call& call) {
  bool found = false;
  eachTensor(call.values, [&](const at::Tensor& tensor) { found |= !traceTensor(*tensor.unsafeGetTensorImpl()); });
  return found;
}

// Stand-ins have no memory, and whoever touches it is told so. An ordinary tensor has.
void inCapture(Trace& trace, const Call& call, DirectUse use) {
  const char* why = "its kernel uses the memory of tensors itself, and a capture computes nothing";
  if (use != DirectUse::Unknown) refuse(trace, call, {ops::Reason::DataDependent, why});
  if (hasOrdinary(call)) {
    if (!trace.mayBeEager()) refuse(trace, call, {ops::Reason::Unsupported, why});
    trace.noteOnlyEager(nameOf(call.op) + ": " + why);
  }
  pass(call.op, call.keys, call.stack);
}

// detach_() in a capture, whose program cannot change what the caller's autograd knows of an argument. What was made
// inside is the result of a detach() from then on.
void historyInCapture(Trace& trace, const Call& call) {
  at::Tensor tensor = call.values[0].toTensor();
  bool cuts = call.op.operator_name().name == "aten::detach_" && tensor.requires_grad() && !tensor.is_view();
  TraceTensor* own = traceTensor(*tensor.unsafeGetTensorImpl());
  if (!cuts) return pass(call.op, call.keys, call.stack);
  if (!own || !own->value() || own->value()->isParameter()) {
    const char* why = "it detaches an argument in place, and a captured program does not; use detach()";
    if (!trace.mayBeEager()) refuse(trace, call, {ops::Reason::Unsupported, why});
    trace.noteOnlyEager(nameOf(call.op) + ": " + why);
    return pass(call.op, call.keys, call.stack);
  }
  at::Tensor cut = trace.mayBeEager() ? at::Tensor() : tensor.detach();
  pass(call.op, call.keys, call.stack);
  TraceTensor* made = cut.defined() ? traceTensor(*cut.unsafeGetTensorImpl()) : nullptr;
  if (made && made->value()) own->setValue(made->value());
}

// Makes a tensor subclass that waits for other processes when it is used. A graph waits where it stands, which gives
// the same numbers; whoever can run eagerly does, and gets the subclass.
bool waitsInstead(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Trace* trace = currentTape() ? nullptr : current();
  if (!trace || trace->mode() != Mode::Capture) return false;
  const std::string& name = op.operator_name().name;
  if (name != "_c10d_functional::_wrap_tensor_autograd") return false;
  if (trace->mayBeEager()) trace->noteOnlyEager(name + ": it gives a tensor that waits when it is used");
  c10::Dispatcher::singleton().findSchemaOrThrow("_c10d_functional::wait_tensor", "").callBoxed(stack);
  return true;
}

void callArrives(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (waitsInstead(op, stack)) return;
  if (Tape* tape = currentTape()) tape->begins(op);
  DirectUse use = directUse(op);
  if (use == DirectUse::None) return pass(op, keys, stack);
  Call call(op, keys, stack);
  if (use == DirectUse::MemoryWithoutGrad && isDifferentiated(call)) return pass(op, keys, stack);
  if (Tape* tape = currentTape()) {
    if (!tape->callWhole(call, use)) pass(op, keys, stack);
    return;
  }
  Trace* trace = current();
  if (!trace) return pass(op, keys, stack);
  if (use == DirectUse::Autograd) {
    return trace->mode() == Mode::Capture ? historyInCapture(*trace, call) : pass(op, keys, stack);
  }
  if (use == DirectUse::MemoryWithoutGrad) return poolWithIndices(stack);
  if (trace->mode() == Mode::Deferred) return runSettled(*trace, call);
  inCapture(*trace, call, use);
}

SAKER_CALL_FALLBACK(callArrives)

}  // namespace

DirectUse directUse(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<c10::OperatorHandle, DirectUse> known;
  auto [found, isNew] = known.try_emplace(op, DirectUse::None);
  if (isNew) found->second = find(op);
  return found->second;
}

// --- on a tape ---

bool Tape::callWhole(const Call& call, DirectUse use) {
  if (spoiled_ || hasSubclass(call)) return false;
  const std::string name = nameOf(call.op);
  if (use == DirectUse::Autograd) {
    const at::Tensor& tensor = call.values[0].toTensor();
    bool known = tensor.unsafeGetTensorImpl() == std::exchange(detached_, nullptr);
    bool nothing = name == "aten::detach_" && !tensor.requires_grad();  // torch.tensor() does that
    if (!known && !nothing) spoil(Why::ChangesHistory, name);
    return false;
  }
  if (use == DirectUse::Sizes) {
    const c10::IValue& decides = call.values[1];
    if (!decides.isTensor() || !isLiteral(decides.toTensor())) spoil(Why::DependsOnData, name);
    return false;
  }
  if (call.keys.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) {
    spoil(Why::KernelInTransform, name);
  } else if (!(call.keys & c10::autocast_dispatch_keyset).empty()) {
    spoil(Why::KernelUnderAutocast, name);
  }
  if (spoiled_ || !isRecorded(call, nullptr)) return false;
  std::vector<c10::StorageImpl*> given;
  eachTensor(call.values, [&](const at::Tensor& tensor) {
    given.push_back(tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr);
  });
  size_t below = call.stack->size() - call.values.size();
  userWrote_ = true;  // a replay calls it where autograd counts writes, as here
  perform(call, nullptr, [](Tape&, const Call& arrived) {
    TapeScope untaped(nullptr);
    arrived.op.redispatchBoxed((arrived.keys & aten::kBelowCall) - aten::kTraceKeys, arrived.stack);
  });
  // Whether results are of the recorded sizes is asked of fresh ones only.
  eachTensor(std::span(*call.stack).subspan(below), [&](const at::Tensor& tensor) {
    bool shares = tensor.has_storage() &&
                  std::find(given.begin(), given.end(), tensor.storage().unsafeGetStorageImpl()) != given.end();
    if (shares && !isUserWrite(call)) spoil(Why::ResultIsArgument, name);
  });
  return true;
}

}  // namespace saker::tracing
