#include "capture/record.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/Generator.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include "aten/convert.h"
#include "aten/enums.h"
#include "aten/on_copies.h"
#include "aten/torch_version.h"
#include "capture/call.h"
#include "capture/casts.h"
#include "capture/overlap.h"
#include "capture/run_now.h"
#include "capture/symbolic_number.h"
#include "capture/tape.h"
#include "capture/trace.h"
#include "ops/operator.h"

namespace saker::tracing {

namespace {

// The arguments as the graph has them: tensors are values of the trace, Python numbers stand for themselves.
class ValueConverter final : public aten::Converter {
 public:
  ValueConverter(Trace& trace, Arena& arena)
      : Converter(*trace.context(), arena, trace.host().hooks.unwrap), trace_(trace) {}

  ir::Arg tensorArg(const at::Tensor& tensor) override {
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !trace_.isPending(tensor)) return numberArg(tensor);
    return ir::Arg::value(trace_.valueOf(tensor));
  }
  ir::Arg numberArg(const at::Tensor& tensor) {
    if (mayBeSymbolic()) {
      c10::IValue symbolic = trace_.symbolicNumber(tensor);
      if (!symbolic.isNone()) return argument(symbolic, aten::IntMeaning::Number);
    }
    switch (tensor.scalar_type()) {
      case c10::kDouble:
        return ir::Arg::number(*static_cast<const double*>(tensor.const_data_ptr()));
      case c10::kLong:
        return ir::Arg::integer(plainNumber(*static_cast<const int64_t*>(tensor.const_data_ptr())));
      case c10::kBool:
        return ir::Arg::boolean(*static_cast<const bool*>(tensor.const_data_ptr()));
      default:
        return argument(tensor.item(), aten::IntMeaning::Number);
    }
  }
  // Beside a tensor, PyTorch's bindings put this number in the place of a symbol. Where the symbol was not found behind
  // it, it is out of reach.
  int64_t plainNumber(int64_t value) const {
    if (value == kSymbolicPlaceholder && mayBeSymbolic()) {
      throw ops::RefusalException{{ops::Reason::Unsupported,
                                   "a dynamic size is used as a number beside a tensor; use it in an operator that "
                                   "takes a size, or make it static"}};
    }
    return value;
  }
  // Without symbols there are no symbolic numbers, and nobody is asked.
  bool mayBeSymbolic() const { return !trace_.context()->symbols().symbols().empty(); }
  ir::Arg opaqueArg(std::string_view className, const c10::IValue& object) override {
    return ir::Arg::opaque(trace_.context()->opaque(className, trace_.keep(object)));
  }

 private:
  Trace& trace_;
};

// One call on its way into a trace.
class Recorder {
 public:
  Recorder(Trace& trace, const Call& call) : trace_(trace), call_(call), entry_(trace.inference().find(operatorOf())) {}

  // False: the operator is to be taken apart by its composite kernel, which records its parts.
  bool record() {
    settleStrangers();
    if (isComposite()) return false;
    if (setsMemory()) return setMemory();
    if (trace_.mode() == Mode::Capture && castsInside(call_)) {
      if (!trace_.mayBeEager()) refuse(trace_, call_, {ops::Reason::Unsupported, kCastsInside});
      trace_.noteOnlyEager(std::string(kCastsInside));
    }
    if (cannotWait(trace_, call_, entry_)) {
      runNow(trace_, call_, entry_);
      return true;
    }
    if (entry_ && checkOverlap(*entry_->op, call_) && trace_.mode() == Mode::Capture) {
      constexpr const char* why = "it reads what it writes, in an order that is its kernel's own";
      if (!trace_.mayBeEager()) refuse(trace_, call_, {ops::Reason::Unsupported, why});
      trace_.noteOnlyEager(why);
    }
    trace_.inference().observe(*trace_.context());
    trace_.scratch().reset({});
    ValueConverter converter(trace_, trace_.scratch());
    converter_ = &converter;
    try {
      if (!entry_) {
        recordUnknown(converter);
      } else if (trace_.mode() == Mode::Capture && entry_->op->qualified == "aten::lift_fresh") {
        recordLiteral();
      } else {
        std::span<const ir::Arg> args =
            trace_.inference().arguments(converter, trace_.scratch(), *entry_, call_.values);
        ops::Inferred inferred = ops::infer(*entry_->op, *trace_.context(), args);
        if (inferred.refusal) throw ops::RefusalException{*inferred.refusal};
        if (isMetadataWrite()) {
          giveGeometry(inferred);
        } else if (!mustRun(inferred)) {
          append(entry_->op, resolved(args, inferred), inferred.results);
        } else if (trace_.mode() == Mode::Capture) {
          throw ops::RefusalException{
              {ops::Reason::Unsupported, "its result is on the meta device, which has no data"}};
        } else {
          runNow(trace_, call_, entry_);
        }
      }
    } catch (const ops::RefusalException& refused) {
      onRefusal(trace_, call_, refused.refusal);
    }
    return true;
  }

 private:
  // Zeros without memory are for autograd alone: a graph has zeros.
  const c10::OperatorHandle& operatorOf() const {
    static const c10::OperatorHandle zeros = c10::Dispatcher::singleton().findSchemaOrThrow("aten::zeros", "");
    bool memoryless = call_.op.operator_name().name == "aten::_efficientzerotensor";
    return memoryless && trace_.mode() == Mode::Capture ? zeros : call_.op;
  }

  // Tensors of other traces, and such as reached a pending storage under another dtype, become ordinary first. Those
  // that an error left without data raise it.
  void settleStrangers() {
    eachTensor(call_.values, [&](const at::Tensor& tensor) {
      c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
      TraceStorage* storage = traceStorage(impl);
      if (!storage) return;
      storage->raiseFailure();
      if (!storage->root()) return;
      std::shared_ptr<Trace> owner = storage->trace();
      if (owner.get() != &trace_) {
        settleForeign(*owner);
      } else if (storage->root()->tensor()->dtype != aten::toDType(tensor.scalar_type()) && !traceTensor(impl)) {
        if (trace_.mode() == Mode::Capture) {
          refuse(trace_, call_, {ops::Reason::Unsupported, "a tensor came to see a result under another dtype"});
        }
        trace_.flush();
      }
    });
  }

  void settleForeign(Trace& owner) {
    if (owner.mode() == Mode::Capture) {
      trace_.raise({ops::Reason::Unsupported,
                    "a tensor of one capture is used inside of another one; pass it as an "
                    "argument, or capture both in one function"});
    }
    owner.flush();
  }

  // A literal becomes a constant of the graph, and what the program gets is a copy, which it may write to.
  void recordLiteral() {
    ir::Value* constant = trace_.valueOf(call_.values[0].toTensor());
    if (constant->isParameter()) trace_.noteLiteral(constant);
    const ir::Arg args[] = {ir::Arg::value(constant), ir::Arg::none()};
    const ops::Operator* clone = ops::find("aten::clone");
    append(clone, args, ops::infer(*clone, *trace_.context(), args).results);
  }

  bool isComposite() const {
    if (entry_ && !entry_->op->has(ops::kMayAlias)) return false;
    return call_.op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  }

  // t_, squeeze_, as_strided_: another view of the same memory under the same tensor.
  bool isMetadataWrite() const {
    const ops::Operator& op = *entry_->op;
    return op.variant == ops::Variant::Inplace && op.cost == ops::Cost::View && op.writes == 1;
  }

  // Deferred, there is nothing to run: the tensor is another view of its memory from here on. In a capture it is part
  // of the program, for tensors that the program was given or made.
  void giveGeometry(const ops::Inferred& inferred) {
    const at::Tensor target = call_.values[0].toTensor();
    if (trace_.mode() == Mode::Capture) {
      if (!traceTensor(*target.unsafeGetTensorImpl())) {
        throw ops::RefusalException{{ops::Reason::Unsupported,
                                     "it gives other sizes or strides to a tensor that the "
                                     "function closes over"}};
      }
      return append(entry_->op, trace_.inference().arguments(*converter_, trace_.scratch(), *entry_, call_.values),
                    inferred.results);
    }
    trace_.setGeometry(target, nullptr, *ir::asTensor(inferred.results[0]));
    call_.replaceWith({target});
  }

  // a.set_(b) of tensors that the capture knows.
  bool setsMemory() const {
    static const ops::Operator* set = ops::find("aten::set_.source_Tensor");
    if (trace_.mode() != Mode::Capture || !entry_ || entry_->op != set) return false;
    const at::Tensor& target = call_.values[0].toTensor();
    const at::Tensor& source = call_.values[1].toTensor();
    return traceTensor(*target.unsafeGetTensorImpl()) && pendingStorage(*source.unsafeGetTensorImpl()) &&
           target.scalar_type() == source.scalar_type() && target.device() == source.device();
  }

  // From here on it is what the other one is, which needs no operator of the graph.
  bool setMemory() {
    const at::Tensor target = call_.values[0].toTensor();
    const at::Tensor& source = call_.values[1].toTensor();
    ir::Value* value = trace_.valueOf(source);
    target.unsafeGetTensorImpl()->set_storage_keep_dtype(source.storage());
    trace_.setGeometry(target, value, *value->tensor());
    call_.replaceWith({target});
    return true;
  }

  // Results without data, and, where tensors must be exact at once, results of a size that only the operator knows.
  bool mustRun(const ops::Inferred& inferred) const {
    for (const ir::Type* result : inferred.results) {
      const ir::TensorType* type = ir::asTensor(result);
      if (!type) continue;
      if (type->device.type == ir::DeviceType::Meta) return true;
      if (type->symbolic && trace_.mode() == Mode::Deferred) return true;
    }
    return false;
  }

  // An operator that the table does not know, in a capture: by its meta kernel.
  void recordUnknown(ValueConverter& converter) {
    if (std::optional<std::string> why = whyNotBelowAutograd(call_)) trace_.noteOnlyEager(qualified() + ": " + *why);
    if (isUserWrite(call_)) return recordUserWrite(converter);
    for (const c10::Argument& argument : call_.op.schema().arguments()) {
      if (argument.alias_info()) {
        throw ops::RefusalException{{ops::Reason::Unsupported,
                                     "it writes to or aliases its arguments, and the "
                                     "operator table does not know it"}};
      }
    }
    for (const c10::Argument& result : call_.op.schema().returns()) {
      c10::TypeKind kind = result.type()->kind();
      if (kind != c10::TypeKind::TensorType && kind != c10::TypeKind::ListType) {
        throw ops::RefusalException{{ops::Reason::DataDependent, "its result is no tensor"}};
      }
    }
    aten::Inference::Outcome outcome{};
    if (!call_.op.schema().returns().empty()) {
      outcome = trace_.inference().infer(*trace_.context(), call_.op, call_.values);
      if (outcome.inferred.refusal) throw ops::RefusalException{*outcome.inferred.refusal};
      ++trace_.stats().fallbacks;
    }
    std::vector<aten::IntMeaning> meanings = aten::intMeanings(call_.op.schema());
    std::span<const ir::Arg> args = converter.arguments(meanings, call_.values);
    append(trace_.context()->op(qualified()), args, outcome.inferred.results);
  }

  std::string qualified() const {
    const c10::OperatorName& name = call_.op.operator_name();
    return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
  }

  // One that writes is recorded as one on copies, which are then copied to where they come from.
  void recordUserWrite(ValueConverter& converter) {
    UserWrite write = userWrite(call_);
    if (std::optional<std::string> why = whyNotOnCopies(trace_, call_, write)) {
      if (!trace_.mayBeEager()) throw ops::RefusalException{{ops::Reason::Unsupported, *why}};
      trace_.noteOnlyEager(qualified() + ": " + *why);
    }
    if (trace_.readObserver()) eachTensor(call_.values, trace_.readObserver());
    std::vector<const ir::Type*> types = freshResults();
    size_t fresh = types.size();
    for (const at::Tensor& target : write.targets) {
      ir::TensorSpec copy(*trace_.valueOf(target)->tensor());
      copy.offset = 0;
      types.push_back(trace_.context()->types().tensor(copy));
    }
    std::vector<aten::IntMeaning> meanings = aten::intMeanings(call_.op.schema());
    const ir::OpDef* def = trace_.context()->op(aten::onCopies(call_.op).operator_name().name);
    ir::Node* node = insert(def, converter.arguments(meanings, call_.values), types);
    for (size_t i = 0; i < write.targets.size(); ++i) copyBack(write, i, node->result(fresh + i));
    pushBesideTargets(*node);
    trace_.noteUserWrite(std::move(write));
  }

  // Of results that are none of what is written.
  std::vector<const ir::Type*> freshResults() {
    const std::vector<c10::Argument>& returns = call_.op.schema().returns();
    auto isFresh = [](const c10::Argument& result) { return !result.alias_info(); };
    if (std::none_of(returns.begin(), returns.end(), isFresh)) return {};
    aten::Inference::Outcome outcome = trace_.inference().infer(*trace_.context(), call_.op, call_.values);
    if (outcome.inferred.refusal) throw ops::RefusalException{*outcome.inferred.refusal};
    ++trace_.stats().fallbacks;
    std::span<const ir::Type* const> all = outcome.inferred.results;
    std::vector<const ir::Type*> types;
    size_t next = 0;
    for (size_t i = 0; i < returns.size(); ++i) {
      bool list = returns[i].type()->kind() == c10::TypeKind::ListType;
      size_t count = list ? all.size() - (returns.size() - 1) : 1;
      for (size_t k = 0; k < count; ++k, ++next) {
        if (isFresh(returns[i])) types.push_back(all[next]);
      }
    }
    return types;
  }

  // Autograd sees no such write in eager mode either.
  void copyBack(const UserWrite& write, size_t target, ir::Value* contents) {
    static const ops::Operator* copy = ops::find("aten::copy_");
    const at::Tensor& tensor = write.targets[target];
    ir::Value* into = trace_.valueOf(tensor);
    const ir::Arg args[] = {ir::Arg::value(into), ir::Arg::value(contents), ir::Arg::boolean(false)};
    const ir::Type* types[] = {into->type()};
    ir::Node* node = insert(copy, args, types);
    ir::Attributes modes = node->attributes();
    modes.noGrad = true;
    trace_.graph().setAttributes(node, modes);
    trace_.noteWrite(tensor, write.counted);
  }

  void pushBesideTargets(const ir::Node& node) {
    const c10::FunctionSchema& schema = call_.op.schema();
    torch::jit::Stack results;
    size_t next = 0, fresh = node.resultCount();
    eachWritten([&](const at::Tensor&) { --fresh; });
    for (const c10::Argument& returned : schema.returns()) {
      if (returned.alias_info()) {
        results.emplace_back(writtenAs(*returned.alias_info()));
      } else if (returned.type()->kind() == c10::TypeKind::ListType) {
        size_t others = static_cast<size_t>(std::count_if(schema.returns().begin(), schema.returns().end(),
                                                          [](const c10::Argument& r) { return !r.alias_info(); }));
        c10::List<at::Tensor> list;
        for (size_t count = fresh - (others - 1); count > 0; --count) list.push_back(result(node, next++, -1, false));
        results.emplace_back(std::move(list));
      } else {
        results.emplace_back(result(node, next++, -1, false));
      }
    }
    call_.replaceWith(std::move(results));
  }

  template <typename Visit>
  void eachWritten(const Visit& visit) const {
    const std::vector<c10::Argument>& formals = call_.op.schema().arguments();
    for (size_t i = 0; i < formals.size(); ++i) {
      if (aten::isWritten(formals[i])) eachTensor(call_.values.subspan(i, 1), visit);
    }
  }

  // The argument that a result is.
  at::Tensor writtenAs(const c10::AliasInfo& alias) const {
    const std::vector<c10::Argument>& formals = call_.op.schema().arguments();
    for (size_t i = 0; i < formals.size(); ++i) {
      bool same = formals[i].alias_info() && formals[i].alias_info()->beforeSets() == alias.beforeSets();
      if (same && call_.values[i].isTensor()) return call_.values[i].toTensor();
    }
    throw ops::RefusalException{
        {ops::Reason::Unsupported, "its result is an argument, which its schema does not name"}};
  }

  // What a factory takes from the surroundings is written down: they may be others when it runs.
  std::span<const ir::Arg> resolved(std::span<const ir::Arg> args, const ops::Inferred& inferred) {
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

  ir::Node* insert(const ir::OpDef* def, std::span<const ir::Arg> args, std::span<const ir::Type* const> types) {
    ++trace_.stats().recorded;
    const ir::Location* location = trace_.whereAmI();
    ir::Graph& graph = trace_.graph();
    ir::Attributes modes{.noGrad = !noteAutograd(location)};
    return graph.append(graph.top(), def, args, types, {location, modes});
  }

  void append(const ir::OpDef* def, std::span<const ir::Arg> args, std::span<const ir::Type* const> types) {
    ir::Node* node = insert(def, args, types);
    if (trace_.readObserver()) eachTensor(call_.values, trace_.readObserver());
    const ops::Operator* op = ops::of(def);
    if (op && op->writes) {
      for (size_t i = 0; i < call_.values.size(); ++i) {
        if (!op->writesArgument(i)) continue;
        eachTensor(call_.values.subspan(i, 1), [&](const at::Tensor& written) {
          trace_.noteWrite(written);
          if (call_.bumpsInside && written.is_cpu()) torch::autograd::impl::bump_version(written);
        });
      }
    }
    pushResults(*node, op);
  }

  // Is autograd on? Some kernels ask.
  bool noteAutograd(const ir::Location* location) {
    bool grad = c10::GradMode::is_enabled();
    // The node that autograd has just made for this operator, if it made one.
    if (grad) trace_.noteSequence(at::sequence_number::peek() - 1, location);
    // An operator whose formula stands around it (torch.library) is differentiated by that, wherever it is run again.
    if (!grad && !entry_ && trace_.host().insideOwnGradient) grad = trace_.host().insideOwnGradient();
    return grad;
  }

  void pushResults(const ir::Node& node, const ops::Operator* op) {
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

  static bool hasSizes(const at::Tensor& tensor, const ir::TensorType& type) {
    bool same = static_cast<size_t>(tensor.dim()) == type.rank;
    for (size_t i = 0; same && i < type.rank; ++i) {
      same = type.size(i).isConst() && type.size(i).constant() == tensor.sizes()[i];
    }
    return same;
  }

  at::Tensor result(const ir::Node& node, size_t index, int alias, bool written) {
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
      if (trace_.mode() == Mode::Capture && !traceTensor(*source.unsafeGetTensorImpl()) && !hasSizes(source, *type)) {
        trace_.raise({ops::Reason::Unsupported, "it gives other sizes to a tensor that the function closes over"});
      }
      trace_.setGeometry(source, value, *type);
    }
    return source;
  }

  Trace& trace_;
  const Call& call_;
  const aten::Inference::Entry* entry_;
  ValueConverter* converter_ = nullptr;
};

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

// Before 2.13, what modes and subclasses call is kept from the trace, so it must find data.
void settleForPython([[maybe_unused]] const Call& call) {
#if !SAKER_TORCH_AT_LEAST(2, 13)
  Trace* trace = current();
  if (!trace) return;
  if (trace->mode() == Mode::Capture) {
    trace->raise({ops::Reason::Unsupported,
                  "a tensor subclass (a FakeTensor is one) or a mode sees an operator; captures go through them from "
                  "torch 2.13 on"},
                 toString(call.op.operator_name()));
  }
  trace->flush();
#endif
}

bool isPythons(const Call& call) {
  if (c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::Python)) return false;
  bool found = call.keys.has(c10::DispatchKey::Python);
  eachTensor(call.values, [&](const at::Tensor& tensor) {
    found |= tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
  });
  return found;
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
  bool done = Recorder(trace, call).record();
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
    if (Recorder(*trace, call).record()) return;
  }
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

SAKER_TRACE_FALLBACK(recordCall)

}  // namespace saker::tracing
