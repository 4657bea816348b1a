#include "capture/record.h"

#include <torch/csrc/autograd/function.h>
#include <torch/library.h>

#include "aten/torch_version/fake_tensors.h"
#include "aten/torch_version/version.h"
#include "capture/record_call.h"
#include "capture/run_now.h"
#include "capture/tape.h"
#include "support/check.h"

namespace saker::tracing {

namespace {

// The thread's trace; on a thread of the autograd engine, that of the tensors it was given.
std::shared_ptr<Trace> traceFor(std::span<c10::IValue> values) {
  if (Trace* own = current()) return own->shared_from_this();
  std::shared_ptr<Trace> found;
  eachTensor(values, [&](const at::Tensor& tensor) {
    if (found) return;
    if (TraceStorage* storage = pendingStorage(*tensor.unsafeGetTensorImpl())) found = storage->trace();
  });
  return found;
}

void raiseFailures(std::span<c10::IValue> values) {
  eachTensor(values, [](const at::Tensor& tensor) {
    TraceStorage* storage = traceStorage(*tensor.unsafeGetTensorImpl());
    if (storage) storage->raiseFailure();
  });
}

// The key is on the call although nothing is to be recorded: by a tensor that was a trace's, or on a thread of the
// autograd engine that works for one.
void runOrdinary(const Call& call) {
  raiseFailures(call.values);
  RunForReal real;
  eachTensor(call.values, [](const at::Tensor& tensor) { dropTraceKey(*tensor.unsafeGetTensorImpl()); });
  call.op.callBoxed(call.stack);
}

// PyTorch's own FakeTensors have the key too. What it does with them is not ours: it has no kernel there, and says so.
void refusePyTorchsFakes(const Call& call, bool recording) {
  bool fake = !recording && aten::inPyTorchsFakeMode();
  eachTensor(call.values,
             [&](const at::Tensor& tensor) { fake |= aten::isPyTorchsFake(*tensor.unsafeGetTensorImpl()); });
  TORCH_CHECK_NOT_IMPLEMENTED(!fake, toString(call.op.operator_name()),
                              " has no kernel for C++ FakeTensors (dispatch key Fake) in torch ", TORCH_VERSION);
}

// Where what modes and subclasses call is kept from the trace, it must find data.
void settleForPython(const Call& call) {
  if constexpr (aten::kPythonIsRecorded) return;
  Trace* trace = current();
  if (!trace) return;
  if (trace->mode() == Mode::Capture) {
    trace->raise({ops::Reason::Unsupported,
                  "a tensor subclass (a FakeTensor is one) or a mode sees an operator; captures go through them from "
                  "torch 2.13 on"},
                 toString(call.op.operator_name()));
  }
  trace->flush();
}

bool isPythons(const Call& call) {
  if (c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python)) return false;
  return call.keys.has(c10::DispatchKey::Python) || hasSubclass(call);
}

// In a backward: what makes a sparse gradient of dense tensors runs as it is, and these are tensors of the trace. The
// operators that such a formula is made of are recorded; the last one only puts them together.
bool makeSparseGradient(const Call& call) {
  constexpr size_t kSparse = 9;
  if (!torch::autograd::get_current_node()) return false;
  const std::string& name = call.op.operator_name().name;
  bool last = name == "aten::_sparse_coo_tensor_with_dims_and_tensors";
  bool formula =
      name == "aten::_embedding_bag_backward" && call.values[kSparse].isBool() && call.values[kSparse].toBool();
  if (!last && !formula) return false;
  std::optional<RunForReal> real;
  if (last) real.emplace();
  call.op.redispatchBoxed(call.keys & aten::kBelowTrace, call.stack);
  return true;
}

}  // namespace

void record(Trace& trace, const Call& call) {
  bool done = CallRecorder(trace, call).record();
  SAKER_CHECK(done, "an operator that is no composite");
}

void recordCall(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  Call call(op, keys, stack);
  // Modes and subclasses that see every operator come first; what they call comes back here.
  if (isPythons(call)) {
    settleForPython(call);
    if (Tape* tape = currentTape(); tape && tape->callWrapped(call)) return;
    return op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Python), stack);
  }
  refusePyTorchsFakes(call, currentTape() || current());
  if (Tape* tape = currentTape()) {
    if (tape->call(call)) return;
    return op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
  }
  std::shared_ptr<Trace> trace = traceFor(call.values);
  if (!trace) return runOrdinary(call);
  if (trace->mode() == Mode::Capture && makeSparseGradient(call)) return;
  if (trace->mode() == Mode::Capture && isAboutMeta(call)) return runOrdinary(call);
  {
    auto held = trace->lock();
    // A trace tensor used where no trace is on: on another thread, or after the block was left.
    if (!current() && !c10::impl::tls_is_dispatch_key_included(kTraceKey)) {
      if (trace->mode() == Mode::Capture) {
        trace->raise(
            {ops::Reason::Unsupported, "a tensor of a capture is used on another thread; a capture stays on one"});
      }
      trace->flush();
      return runOrdinary(call);
    }
    RunForReal real;  // before anything else, or what is called here comes back here
    if (CallRecorder(*trace, call).record()) return;
  }
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

SAKER_TRACE_FALLBACK(recordCall)

}  // namespace saker::tracing
