#include "capture/record_call.h"

#include <ATen/SequenceNumber.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "aten/enums.h"
#include "capture/casts.h"
#include "capture/closed_bodies.h"
#include "capture/counted_writes.h"
#include "capture/overlap.h"
#include "capture/run_now.h"
#include "capture/undo.h"
#include "capture/zero_tensors.h"
#include "ops/operator.h"

namespace saker::tracing {

namespace {

[[noreturn]] void unsupported(const char* why) { throw ops::RefusalException{{ops::Reason::Unsupported, why}}; }

bool hasSizes(const at::Tensor& tensor, const ir::TensorType& type) {
  bool same = static_cast<size_t>(tensor.dim()) == type.rank;
  for (size_t i = 0; same && i < type.rank; ++i) {
    same = type.size(i).isConst() && type.size(i).constant() == tensor.sizes()[i];
  }
  return same;
}

}  // namespace

CallRecorder::CallRecorder(Trace& trace, const Call& call)
    : trace_(trace), call_(call), entry_(trace.inference().find(operatorOf())) {}

bool CallRecorder::record() {
  settleStrangers();
  if (isTakenApart(call_, entry_)) return false;
  if (trace_.mode() == Mode::Capture && recordWithZeros(trace_, call_, entry_)) return true;
  if (setsMemory()) return setMemory();
  if (trace_.mode() == Mode::Capture && castsInside(call_)) onlyEager(kCastsInside);
  if (cannotWait(trace_, call_, entry_)) {
    runNow(trace_, call_, entry_);
    return true;
  }
  if (entry_ && checkOverlap(*entry_->op, call_) && trace_.mode() == Mode::Capture) {
    onlyEager("it reads what it writes, in an order that is its kernel's own");
  }
  trace_.inference().observe(*trace_.context());
  try {
    if (bodiesOf(call_)) {
      recordBodies();
    } else if (!entry_) {
      recordUnknown();
    } else if (trace_.mode() == Mode::Capture && entry_->op->qualified == "aten::lift_fresh") {
      recordLiteral();
    } else {
      recordConverted();
      if (trace_.mode() == Mode::Capture && makesZeroTensor(call_)) markZeroTensor(call_.stack->back().toTensor());
    }
  } catch (const ops::RefusalException& refused) {
    onRefusal(trace_, call_, refused.refusal);
  }
  return true;
}

void CallRecorder::recordConverted() {
  std::span<const ir::Arg> args = trace_.convert(call_, entry_).args;
  ops::Inferred inferred = ops::infer(*entry_->op, *trace_.context(), args);
  if (inferred.refusal) throw ops::RefusalException{*inferred.refusal};
  if (isMetadataWrite()) {
    giveGeometry(args, inferred);
  } else if (!mustRun(inferred)) {
    append(entry_->op, resolved(args, inferred), inferred.results);
  } else if (trace_.mode() == Mode::Capture) {
    unsupported("its result is on the meta device, which has no data");
  } else {
    runNow(trace_, call_, entry_);
  }
}

// Of something that no graph does as eager mode does it: refused, unless the caller can run eagerly instead.
void CallRecorder::onlyEager(const std::string& why) {
  if (!trace_.mayBeEager()) refuse(trace_, call_, {ops::Reason::Unsupported, why});
  trace_.noteOnlyEager(why);
}

// Zeros without memory are for autograd alone: a graph has zeros, which the trace knows (zero_tensors.h).
const c10::OperatorHandle& CallRecorder::operatorOf() const {
  static const c10::OperatorHandle zeros = c10::Dispatcher::singleton().findSchemaOrThrow("aten::zeros", "");
  return makesZeroTensor(call_) && trace_.mode() == Mode::Capture ? zeros : call_.op;
}

// Tensors of other traces, and such as reached a pending storage under another dtype, become ordinary first. Those
// that an error left without data raise it.
void CallRecorder::settleStrangers() {
  eachTensor(call_.values, [&](const at::Tensor& tensor) {
    c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    TraceStorage* storage = traceStorage(impl);
    if (!storage) return;
    storage->raiseFailure();
    if (!storage->root()) return;
    std::shared_ptr<Trace> owner = storage->trace();
    if (!trace_.isWithin(*owner)) {
      settleForeign(*owner);
    } else if (storage->root()->tensor()->dtype != aten::toDType(tensor.scalar_type()) && !traceTensor(impl)) {
      if (trace_.mode() == Mode::Capture) {
        refuse(trace_, call_, {ops::Reason::Unsupported, "a tensor came to see a result under another dtype"});
      }
      trace_.flush();
    }
  });
}

void CallRecorder::settleForeign(Trace& owner) {
  if (owner.mode() == Mode::Capture) {
    trace_.raise({ops::Reason::Unsupported,
                  "a tensor of one capture is used inside of another one; pass it as an "
                  "argument, or capture both in one function"});
  }
  owner.flush();
}

// A literal becomes a constant of the graph, and what the program gets is a copy, which it may write to.
void CallRecorder::recordLiteral() {
  ir::Value* constant = trace_.addLiteral(call_.values[0].toTensor());
  const ir::Arg args[] = {ir::Arg::value(constant), ir::Arg::none()};
  const ops::Operator* clone = ops::find("aten::clone");
  append(clone, args, ops::infer(*clone, *trace_.context(), args).results);
}

// t_, squeeze_, as_strided_: another view of the same memory under the same tensor.
bool CallRecorder::isMetadataWrite() const {
  const ops::Operator& op = *entry_->op;
  return op.variant == ops::Variant::Inplace && op.cost == ops::Cost::View && op.writes == 1;
}

// Deferred, there is nothing to run: the tensor is another view of its memory from here on. In a capture it is part
// of the program, for tensors that the program was given or made.
void CallRecorder::giveGeometry(std::span<const ir::Arg> args, const ops::Inferred& inferred) {
  const at::Tensor target = call_.values[0].toTensor();
  if (trace_.mode() == Mode::Capture) {
    if (!trace_.owns(*target.unsafeGetTensorImpl())) {
      unsupported("it gives other sizes or strides to a tensor that the function closes over");
    }
    return append(entry_->op, args, inferred.results);
  }
  trace_.setGeometry(target, nullptr, *ir::asTensor(inferred.results[0]));
  call_.replaceWith({target});
}

// a.set_(b) of tensors that the capture knows.
bool CallRecorder::setsMemory() const {
  static const ops::Operator* set = ops::find("aten::set_.source_Tensor");
  if (trace_.mode() != Mode::Capture || !entry_ || entry_->op != set) return false;
  const at::Tensor& target = call_.values[0].toTensor();
  const at::Tensor& source = call_.values[1].toTensor();
  return trace_.owns(*target.unsafeGetTensorImpl()) && pendingStorage(*source.unsafeGetTensorImpl()) &&
         target.scalar_type() == source.scalar_type() && target.device() == source.device();
}

// From here on it is what the other one is, which needs no operator of the graph.
bool CallRecorder::setMemory() {
  const at::Tensor target = call_.values[0].toTensor();
  const at::Tensor& source = call_.values[1].toTensor();
  // What the target was is left without a form: where sizes may change, nobody tells the caller.
  if (target.unsafeGetTensorImpl()->has_symbolic_sizes_strides() ||
      source.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) {
    trace_.raise({ops::Reason::Unsupported, "it sets the memory of a tensor whose sizes may change"});
  }
  ir::Value* value = trace_.valueOf(source);
  TraceStorage *from = pendingStorage(*target.unsafeGetTensorImpl()),
               *to = pendingStorage(*source.unsafeGetTensorImpl());
  bool made = from && from->root() && !from->root()->isParameter();
  if (made && to && to->root() && to->root()->isParameter()) trace_.noteSetsMade();
  target.unsafeGetTensorImpl()->set_storage_keep_dtype(source.storage());
  trace_.setGeometry(target, value, *value->tensor());
  call_.replaceWith({target});
  return true;
}

// Results without data, and, where tensors must be exact at once, results of a size that only the operator knows.
bool CallRecorder::mustRun(const ops::Inferred& inferred) const {
  for (const ir::Type* result : inferred.results) {
    const ir::TensorType* type = ir::asTensor(result);
    if (!type) continue;
    if (type->device.type == ir::DeviceType::Meta) return true;
    if (type->symbolic && trace_.mode() == Mode::Deferred) return true;
  }
  return false;
}

// An operator that the table does not know, in a capture: by its meta kernel.
void CallRecorder::recordUnknown() {
  if (std::optional<std::string> why = whyNotBelowAutograd(call_)) trace_.noteOnlyEager(nameOf(call_.op) + ": " + *why);
  if (isUserWrite(call_)) return recordUserWrite();
  const c10::FunctionSchema& schema = call_.op.schema();
  for (const c10::Argument& argument : schema.arguments()) {
    if (argument.alias_info()) {
      unsupported("it writes to or aliases its arguments, and the operator table does not know it");
    }
  }
  if (!schema.returns().empty() && !returnsTensors(schema)) {
    throw ops::RefusalException{{ops::Reason::DataDependent, "its result is no tensor"}};
  }
  ops::Inferred inferred;
  if (!schema.returns().empty()) inferred = inferByKernel();
  Recording::Converted converted = trace_.convert(call_, nullptr);
  append(converted.def, converted.args, inferred.results);
}

// The kernel may be written in Python, and is no part of the program. Throws a refusal.
ops::Inferred CallRecorder::inferByKernel() {
  aten::Inference::Outcome outcome{};
  auto infer = [&] { outcome = trace_.inference().infer(*trace_.context(), call_.op, call_.values); };
  if (trace_.host().unwatched) {
    trace_.host().unwatched([](void* function) { (*static_cast<decltype(infer)*>(function))(); }, &infer);
  } else {
    infer();
  }
  if (outcome.inferred.refusal) throw ops::RefusalException{*outcome.inferred.refusal};
  ++trace_.stats().fallbacks;
  return std::move(outcome.inferred);
}

void CallRecorder::noteReads() {
  if (!trace_.readObserver()) return;
  eachTensor(call_.values, [&](const at::Tensor& read) { trace_.readObserver()(read, nullptr); });
}

// An operator with bodies: one node.
void CallRecorder::recordBodies() {
  Recording::Converted converted = trace_.convert(call_, nullptr);
  const ir::Location* location = trace_.whereAmI();
  if (c10::GradMode::is_enabled()) trace_.noteSequence(at::sequence_number::peek() - 1, location);
  ++trace_.stats().recorded;
  ir::Node* node = trace_.Recording::append(converted, {}, {location, trace_.modesOf(nullptr)});
  noteReads();
  pushResults(*node, nullptr);
}

// What a factory takes from the surroundings is written down: they may be others when it runs.
std::span<const ir::Arg> CallRecorder::resolved(std::span<const ir::Arg> args, const ops::Inferred& inferred) {
  const ops::Operator& op = *entry_->op;
  const ir::TensorType* made = inferred.results.empty() ? nullptr : ir::asTensor(inferred.results[0]);
  if (!made || op.cost != ops::Cost::Fill) return args;
  std::optional<size_t> place = op.parsed.indexOf("dtype");
  if (!place || *place >= args.size() || !args[*place].isNone()) return args;
  ir::Arg* copied = trace_.scratch().makeArray<ir::Arg>(args.size());
  std::copy(args.begin(), args.end(), copied);
  copied[*place] = ir::Arg::dtype(made->dtype);
  return {copied, args.size()};
}

ir::Node* CallRecorder::insert(const ir::OpDef* def, std::span<const ir::Arg> args,
                               std::span<const ir::Type* const> types) {
  ++trace_.stats().recorded;
  const ir::Location* location = trace_.whereAmI();
  // The node that autograd has just made for this operator, if it made one.
  if (c10::GradMode::is_enabled()) trace_.noteSequence(at::sequence_number::peek() - 1, location);
  return trace_.Recording::append(def, args, types, {location, trace_.modesOf(entry_)});
}

void CallRecorder::append(const ir::OpDef* def, std::span<const ir::Arg> args, std::span<const ir::Type* const> types) {
  ir::Node* node = insert(def, args, types);
  noteReads();
  const ops::Operator* op = ops::of(def);
  std::vector<at::Tensor> expected;  // that autograd counts the write, behind this
  if (op) {
    CountedWrites::Counters counted = CountedWrites::of(call_);
    eachWritten(*op, call_, [&](const at::Tensor& written) {
      noteHidden(written);
      bool counts = std::find(counted.begin(), counted.end(), aten::counterOf(written)) != counted.end();
      trace_.noteWrite(written, {0, counts ? 1U : 0U});
      if (call_.bumpsInside && written.is_cpu()) {
        torch::autograd::impl::bump_version(written);
      } else if (counts) {
        expected.push_back(written);
      }
    });
  }
  try {
    pushResults(*node, op);
  } catch (...) {
    for (const at::Tensor& written : expected) trace_.undo().neverCounted(written);
    throw;
  }
}

// Where gradients are differentiated, the recording runs under autograd, which would see a write through .data.
void CallRecorder::noteHidden(const at::Tensor& written) {
  if (trace_.mode() != Mode::Capture || !trace_.mayBeEager() || !c10::GradMode::is_enabled()) return;
  TraceTensor* own = traceTensor(*written.unsafeGetTensorImpl());
  TraceStorage* storage = pendingStorage(*written.unsafeGetTensorImpl());
  if (!own || !own->hidesWrites() || !storage || !storage->root() || storage->root()->isParameter()) return;
  onlyEager("it writes through .data to a tensor that it made, which a second derivative must not see");
}

void CallRecorder::pushResults(const ir::Node& node, const ops::Operator* op) {
  const std::vector<c10::Argument>& returns = call_.op.schema().returns();
  torch::jit::Stack results;
  size_t next = 0;
  for (size_t i = 0; i < returns.size(); ++i) {
    int alias = op ? op->resultAlias[i] : -1;
    if (returns[i].type()->kind() == c10::TypeKind::ListType) {
      size_t count = node.resultCount() - next - (returns.size() - 1 - i);
      c10::List<at::Tensor> list;
      for (size_t k = 0; k < count; ++k) list.push_back(result(node, next++, alias, false));
      results.emplace_back(std::move(list));
    } else {
      results.emplace_back(result(node, next++, alias, op && op->parsed.returns[i].writes));
    }
  }
  call_.replaceWith(std::move(results));
}

at::Tensor CallRecorder::result(const ir::Node& node, size_t index, int alias, bool written) {
  ir::Value* value = node.result(index);
  const ir::TensorType* type = value->tensor();
  if (!type) return {};
  if (alias < 0) return trace_.makeTensor(value, nullptr);
  const at::Tensor& source = call_.values[static_cast<size_t>(alias)].toTensor();
  if (!written) {
    const c10::Storage storage = source.storage();
    // A view of an ordinary tensor is one in inference mode too.
    std::optional<c10::InferenceMode> mode;
    if (source.is_inference() != c10::InferenceMode::is_enabled()) mode.emplace(source.is_inference());
    return trace_.makeTensor(value, &storage);
  }
  const ir::Arg& argument = node.arg(static_cast<size_t>(alias));
  if (argument.toValue()->type() != type) {
    if (trace_.mode() == Mode::Capture && !trace_.owns(*source.unsafeGetTensorImpl()) && !hasSizes(source, *type)) {
      trace_.raise({ops::Reason::Unsupported, "it gives other sizes to a tensor that the function closes over"});
    }
    trace_.setGeometry(source, value, *type);
  }
  return source;
}

}  // namespace saker::tracing
