#include "capture/run_now.h"

#include <ATen/ops/empty_strided.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "capture/constants.h"
#include "capture/plain.h"
#include "capture/record.h"
#include "ops/operator.h"

namespace saker::tracing {

namespace {

// May the operator run before what is pending? It must read nothing that is to come, and write nothing that a pending
// operator is to read.
bool isIndependent(const Trace& trace, const Call& call, const Entry* entry) {
  if (!entry) return !trace.pending() || isMarker(call);
  bool independent = true;
  for (size_t i = 0; i < call.values.size(); ++i) {
    bool written = entry->op->writesArgument(i);
    eachTensor(call.values.subspan(i, 1), [&](const at::Tensor& tensor) {
      independent &= !trace.isPending(tensor);
      if (written && tensor.has_storage()) independent &= !trace.isInput(tensor.storage().unsafeGetStorageImpl());
    });
  }
  return independent;
}

// Numbers that a program keeps in tensors (the step counters of optimizers): it will ask for them.
bool isHostScalar(const Call& call) {
  bool any = false, all = true;
  eachTensor(call.values, [&](const at::Tensor& tensor) {
    any = true;
    all &= tensor.dim() == 0 && tensor.is_cpu();
  });
  if (any) return all;
  const c10::IValue& first = call.values.empty() ? c10::IValue() : call.values[0];
  if (!first.isIntList() || !first.toIntVector().empty()) return false;
  for (const c10::IValue& value : call.values) {
    if (value.isDevice()) return value.toDevice().is_cpu();
  }
  return true;
}

// PyTorch's own C++ code makes small tables of integers and fills them without an operator.
bool isHostTable(const Call& call, const Entry& entry) {
  if (!entry.op->qualified.starts_with("aten::empty.memory_format")) return false;
  constexpr int64_t kLargest = 4096;
  int64_t count = 1;
  for (const c10::IValue& size : call.values[0].toListRef()) {
    if (!size.isInt()) return false;
    count *= size.toInt();
  }
  const c10::IValue &dtype = call.values[1], &device = call.values[3];
  return count <= kLargest && dtype.isInt() && dtype.toInt() == static_cast<int64_t>(c10::kLong) &&
         (device.isNone() || device.toDevice().is_cpu());
}

bool allOnMeta(const Call& call) {
  bool any = false, all = true;
  eachTensor(call.values, [&](const at::Tensor& tensor) {
    any = true;
    all &= tensor.is_meta();
  });
  return any && all;
}

// What a subclass that answers for itself asks of its own kind (a FakeTensor of its meta kernel) is its own affair.
bool allOfSubclasses(const Call& call) {
  bool any = false, all = true;
  eachTensor(call.values, [&](const at::Tensor& tensor) {
    any = true;
    all &= tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
  });
  return any && all;
}

bool anyExposed(const Trace& trace, const Call& call) {
  bool any = false;
  eachTensor(call.values, [&](const at::Tensor& tensor) { any |= trace.isExposed(tensor); });
  return any;
}

bool allPlain(const Call& call) {
  bool plain = true;
  eachTensor(call.values, [&](const at::Tensor& tensor) { plain &= isPlain(tensor, kTraceKey); });
  return plain;
}

void runForReal(const Call& call, const Entry* entry) {
  eachTensor(call.values, [](const at::Tensor& tensor) {
    if (!pendingStorage(*tensor.unsafeGetTensorImpl())) dropTraceKey(*tensor.unsafeGetTensorImpl());
  });
  if (entry) {
    std::vector<at::Tensor> written;
    if (call.bumpsInside) eachWritten(*entry->op, call, [&](const at::Tensor& tensor) { written.push_back(tensor); });
    call.op.callBoxed(call.stack);
    for (const at::Tensor& tensor : written) {
      if (tensor.is_cpu()) torch::autograd::impl::bump_version(tensor);
    }
    return;
  }
  // The kernel may be a program of its own: it sees the thread as it was, but for the trace.
  runBelow(call);
}

// Fills its argument with random numbers whatever was in it.
bool isRandomFill(const Call& call, const ops::Operator& op) {
  if (!op.isRandom() || op.variant != ops::Variant::Inplace) return false;
  size_t tensors = 0;
  eachTensor(call.values, [&](const at::Tensor&) { ++tensors; });
  return tensors == 1;
}

// The whole of a pending storage, so that what is to be written there does not matter any more.
TraceStorage* wholeStorage(const at::Tensor& tensor) {
  TraceStorage* storage = pendingStorage(*tensor.unsafeGetTensorImpl());
  if (!storage || !tensor.is_non_overlapping_and_dense() || tensor.storage_offset() != 0) return nullptr;
  return tensor.nbytes() == storage->nbytes() ? storage : nullptr;
}

// The numbers are drawn now, so that the generator is in eager's state at every moment; where the tensor is to see
// them only after what is pending, a recorded copy brings them there.
void drawNow(Trace& trace, const Call& call) {
  at::Tensor target = call.values[0].toTensor();
  at::Tensor drawn = at::empty_strided(target.sizes(), target.strides(), target.options());
  call.values[0] = drawn;
  call.op.callBoxed(call.stack);
  call.stack->pop_back();
  if (TraceStorage* storage = wholeStorage(target)) {
    c10::Storage bytes = drawn.storage();
    drawn.reset();
    storage->fill(bytes);
    call.stack->emplace_back(std::move(target));
    return;
  }
  static const c10::OperatorHandle copy = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  call.stack->emplace_back(std::move(target));
  call.stack->emplace_back(std::move(drawn));
  call.stack->emplace_back(false);
  record(trace, Call(copy, {}, call.stack));
}

// The data of a tensor that the program wrote as a literal, while nothing has been written to it.
at::Tensor literal(const Trace& trace, const at::Tensor& tensor) {
  TraceStorage* storage = pendingStorage(*tensor.unsafeGetTensorImpl());
  TraceTensor* own = traceTensor(*tensor.unsafeGetTensorImpl());
  if (!storage || !own || own->value() != storage->root() || storage->written()) return {};
  const ir::Node* made = own->value()->def();
  if (!made || made->op()->qualified != "aten::clone") return {};
  return trace.literalData(made->operand(0));
}

// Reads nothing but constants, which take the place of its arguments.
bool readsConstants(Trace& trace, const Call& call, const Entry* entry) {
  if (!entry || !entry->op->has(ops::kDataDependent)) return false;
  std::vector<std::pair<size_t, at::Tensor>> known;
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (!call.values[i].isTensor()) continue;
    at::Tensor tensor = literal(trace, call.values[i].toTensor());
    if (!tensor.defined()) tensor = constantOf(trace, call.values[i].toTensor());
    if (!tensor.defined()) return false;
    known.emplace_back(i, std::move(tensor));
  }
  for (auto& [place, tensor] : known) call.values[place] = std::move(tensor);
  return true;
}

// Asserts, and what prints: part of the program, in their place.
bool isOrderedEffect(const Call& call, const Entry* entry) {
  return entry && entry->op->has(ops::kEffect) && call.op.schema().returns().empty() && !call.values.empty() &&
         (call.values[0].isTensor() || call.values[0].isString());
}

std::string_view hint(ops::Reason reason) {
  switch (reason) {
    case ops::Reason::DataDependent:
      return "keep the value in a tensor (torch.where instead of if), or compute it outside of what is captured";
    case ops::Reason::Unsupported:
      return "move it outside of what is captured";
    case ops::Reason::BadArgument:
      return "the same call fails in eager mode: run it without saker to see PyTorch's own error";
    case ops::Reason::Undecided:
      return "state what holds with torch._check, or make the size static";
    case ops::Reason::Overflow:
      return "use smaller sizes";
  }
  return "";
}

}  // namespace

bool isAboutMeta(const Call& call) {
  bool any = false, all = true;
  eachTensor(call.values, [&](const at::Tensor& tensor) {
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
    any = true;
    all &= tensor.is_meta();
  });
  if (any) return all;
  return std::any_of(call.values.begin(), call.values.end(),
                     [](const c10::IValue& value) { return value.isDevice() && value.toDevice().is_meta(); });
}

bool cannotWait(const Trace& trace, const Call& call, const Entry* entry) {
  if (trace.mode() == Mode::Capture && isOrderedEffect(call, entry)) return false;
  if (entry && entry->op->traits & kNeverRecorded) return true;
  if (isMarker(call) || isQuery(call, entry) || !allPlain(call)) return true;
  if (trace.mode() == Mode::Capture) return entry && entry->op->isRandom() && trace.generatorSet();
  if (!entry || entry->op->isRandom() || allOnMeta(call)) return true;
  if (entry->op->qualified == "aten::lift_fresh" || entry->op->has(ops::kHostResult)) return true;
  if (isHostTable(call, *entry) || anyExposed(trace, call)) return true;
  bool decides = entry->op->has(ops::kFailsOnData) || isHostScalar(call);
  return decides && isIndependent(trace, call, entry);
}

void runNow(Trace& trace, const Call& call, const Entry* entry) {
  if (isQuery(call, entry)) return call.op.callBoxed(call.stack);
  if (trace.mode() == Mode::Capture) {
    if (isMarker(call) || allOfSubclasses(call) || readsConstants(trace, call, entry)) return runForReal(call, entry);
    if (entry && entry->op->isRandom()) {
      refuse(trace, call,
             {ops::Reason::Unsupported,
              "it draws random numbers after the state of the generator was set, "
              "which a graph does not do yet"});
    }
    if (!allPlain(call)) {
      refuse(trace, call, {ops::Reason::Unsupported, "an argument is not a plain dense tensor"});
    }
    refuse(trace, call, {ops::Reason::DataDependent, "its result cannot be known before the program runs"});
  }
  ++trace.stats().ranAtOnce;
  if (!isIndependent(trace, call, entry)) {
    if (entry && isRandomFill(call, *entry->op)) return drawNow(trace, call);
    trace.flush();
  }
  runForReal(call, entry);
}

void onRefusal(Trace& trace, const Call& call, const ops::Refusal& refusal) {
  if (trace.mode() == Mode::Capture) refuse(trace, call, refusal);
  ++trace.stats().ranAtOnce;
  trace.flush();
  runForReal(call, trace.inference().find(call.op));
}

void refuse(Trace& trace, const Call& call, const ops::Refusal& refusal) {
  trace.raise({refusal.reason, refusal.message + "; " + std::string(hint(refusal.reason))},
              toString(call.op.operator_name()));
}

}  // namespace saker::tracing
