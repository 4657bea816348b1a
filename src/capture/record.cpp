#include "capture/record.h"

#include <ATen/core/Generator.h>

#include "aten/convert.h"
#include "aten/enums.h"
#include "capture/trace.h"
#include "ops/operator.h"

namespace saker::capture {

namespace {

using Values = std::span<c10::IValue>;

template <typename Visit>
void eachTensor(Values values, Visit visit) {
  for (const c10::IValue& value : values) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) visit(value.toTensor());
    } else if (value.isList() && !value.isIntList()) {
      for (const c10::IValue& item : value.toListRef()) {
        if (item.isTensor() && item.toTensor().defined()) visit(item.toTensor());
      }
    }
  }
}

// The arguments as the graph has them: tensors are values of the trace, Python numbers stand for themselves.
class ValueConverter final : public aten::Converter {
 public:
  ValueConverter(Trace& trace, Arena& arena)
      : Converter(*trace.context(), arena, trace.host().hooks.unwrap), trace_(trace) {}

  ir::Arg tensorArg(const at::Tensor& tensor) override {
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number() && !pendingStorage(*tensor.unsafeGetTensorImpl())) {
      return numberArg(tensor);
    }
    return ir::Arg::value(trace_.valueOf(tensor));
  }
  ir::Arg numberArg(const at::Tensor& tensor) {
    switch (tensor.scalar_type()) {
      case c10::kDouble:
        return ir::Arg::number(*static_cast<const double*>(tensor.const_data_ptr()));
      case c10::kLong:
        return ir::Arg::integer(*static_cast<const int64_t*>(tensor.const_data_ptr()));
      case c10::kBool:
        return ir::Arg::boolean(*static_cast<const bool*>(tensor.const_data_ptr()));
      default:
        return argument(tensor.item(), aten::IntMeaning::Number);
    }
  }
  ir::Arg opaqueArg(std::string_view className, const c10::IValue& object) override {
    return ir::Arg::opaque(trace_.context()->opaque(className, trace_.keep(object)));
  }

 private:
  Trace& trace_;
};

// One call on its way into a trace.
class Recorder {
 public:
  Recorder(Trace& trace, const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : trace_(trace),
        op_(op),
        stack_(stack),
        values_(stack->data() + stack->size() - op.schema().arguments().size(), op.schema().arguments().size()),
        entry_(trace.inference().find(op)) {}

  void record() {
    settleStrangers();
    if (onlyMeta()) return runForReal();
    if (mustRunAtOnce()) return runAtOnce();
    Arena scratch;
    ValueConverter converter(trace_, scratch);
    std::span<const ir::Arg> args;
    ops::Inferred inferred;
    try {
      args = trace_.inference().arguments(converter, scratch, *entry_, values_);
      inferred = ops::infer(*entry_->op, *trace_.context(), args);
    } catch (const ops::RefusalException& refused) {
      inferred.refusal = refused.refusal;
    }
    if (inferred.refusal) return refused(*inferred.refusal);
    append(args, inferred);
  }

 private:
  // Tensors of other traces, and such as reached a pending storage under another dtype, become ordinary first.
  void settleStrangers() {
    eachTensor(values_, [&](const at::Tensor& tensor) {
      c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
      TraceStorage* storage = pendingStorage(impl);
      if (storage) {
        std::shared_ptr<Trace> owner = storage->trace();
        if (owner.get() != &trace_) {
          owner->flush();
        } else if (storage->root()->tensor()->dtype != aten::toDType(tensor.scalar_type()) && !traceTensor(impl)) {
          trace_.flush();
        }
      } else if (TraceTensor* other = traceTensor(impl); other && other->trace().get() != &trace_) {
        std::shared_ptr<Trace> owner = other->trace();
        owner->flush();
      }
    });
  }

  bool onlyMeta() const {
    bool any = false, meta = true;
    eachTensor(values_, [&](const at::Tensor& tensor) {
      any = true;
      meta &= tensor.is_meta();
    });
    return any && meta;
  }

  bool mustRunAtOnce() const {
    if (!entry_) return true;
    const ops::Operator& op = *entry_->op;
    if (op.isRandom()) return trace_.mode() == Mode::Deferred;
    return op.has(ops::kDataDependent) || op.has(ops::kDynamicShape) || op.has(ops::kEffect) ||
           op.has(ops::kSetsStorage);
  }

  bool needsPendingData() const {
    bool needs = false;
    eachTensor(values_, [&](const at::Tensor& tensor) {
      const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
      needs |= traceTensor(impl) || pendingStorage(impl) ||
               (impl.has_storage() && trace_.hasPendingWrite(impl.unsafe_storage().unsafeGetStorageImpl()));
    });
    return needs;
  }

  void runAtOnce() {
    if (trace_.mode() == Mode::Capture) {
      return refused({ops::Reason::DataDependent, "its result cannot be known before it runs"});
    }
    ++trace_.stats().ranAtOnce;
    // An operator the table does not know may do anything.
    if (!entry_ || needsPendingData()) trace_.flush();
    runForReal();
  }

  void refused(const ops::Refusal& refusal) {
    if (trace_.mode() == Mode::Deferred) {
      // Eager's own result, or eager's own error.
      ++trace_.stats().ranAtOnce;
      trace_.flush();
      return runForReal();
    }
    const ir::Location* location = trace_.host().location ? trace_.host().location(*trace_.context()) : nullptr;
    if (trace_.host().refuse) trace_.host().refuse(refusal, toString(op_.operator_name()), location);
    throw std::runtime_error(toString(op_.operator_name()) + ": " + refusal.message);
  }

  void runForReal() {
    eachTensor(values_, [](const at::Tensor& tensor) {
      if (!traceTensor(*tensor.unsafeGetTensorImpl())) dropTraceKey(*tensor.unsafeGetTensorImpl());
    });
    op_.callBoxed(stack_);
  }

  void append(std::span<const ir::Arg> args, const ops::Inferred& inferred) {
    ++trace_.stats().recorded;
    const ir::Location* location = trace_.host().location ? trace_.host().location(*trace_.context()) : nullptr;
    const ops::Operator& op = *entry_->op;
    ir::Graph& graph = trace_.graph();
    ir::Node* node = graph.append(graph.top(), &op, args, inferred.results, location);
    for (size_t i = 0; i < values_.size(); ++i) {
      if (op.writes >> i & 1) eachTensor(values_.subspan(i, 1), [&](const at::Tensor& t) { trace_.noteWrite(t); });
    }
    torch::jit::Stack results;
    size_t next = 0;
    for (size_t i = 0; i < op.parsed.returns.size(); ++i) {
      int alias = op.resultAlias[i];
      if (op.parsed.returns[i].type.list) {
        size_t count = node->resultCount() - next - (op.parsed.returns.size() - 1 - i);
        c10::List<at::Tensor> list;
        for (size_t k = 0; k < count; ++k) list.push_back(result(*node, next++, alias, false));
        results.emplace_back(std::move(list));
      } else {
        results.emplace_back(result(*node, next++, alias, op.parsed.returns[i].writes));
      }
    }
    stack_->erase(stack_->end() - static_cast<std::ptrdiff_t>(values_.size()), stack_->end());
    for (c10::IValue& value : results) stack_->push_back(std::move(value));
  }

  at::Tensor result(const ir::Node& node, size_t index, int alias, bool written) {
    ir::Value* value = node.result(index);
    const ir::TensorType* type = value->tensor();
    if (!type) return {};
    if (alias < 0) return trace_.makeTensor(value, nullptr);
    const at::Tensor& source = values_[static_cast<size_t>(alias)].toTensor();
    if (!written) {
      const c10::Storage storage = source.storage();
      return trace_.makeTensor(value, &storage);
    }
    const ir::Arg& argument = node.arg(static_cast<size_t>(alias));
    if (argument.toValue()->type() != type) trace_.setGeometry(source, value, *type);
    return source;
  }

  Trace& trace_;
  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  Values values_;
  const aten::Inference::Entry* entry_;
};

// The thread's trace; on a thread of the autograd engine, that of the tensors it was given.
std::shared_ptr<Trace> traceFor(Values values) {
  if (Trace* own = current()) return own->shared_from_this();
  std::shared_ptr<Trace> found;
  eachTensor(values, [&](const at::Tensor& tensor) {
    if (found) return;
    if (TraceTensor* traced = traceTensor(*tensor.unsafeGetTensorImpl())) found = traced->trace();
  });
  return found;
}

}  // namespace

void recordCall(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  RunForReal real;  // before anything else, or what is called here comes back here
  size_t count = op.schema().arguments().size();
  Values values(stack->data() + stack->size() - count, count);
  std::shared_ptr<Trace> trace = traceFor(values);
  if (!trace) {
    eachTensor(values, [](const at::Tensor& tensor) { dropTraceKey(*tensor.unsafeGetTensorImpl()); });
    op.callBoxed(stack);
    return;
  }
  std::lock_guard guard(trace->lock());
  // A trace tensor used where no trace is on: on another thread, or after the block was left.
  if (!current() && !c10::impl::tls_is_dispatch_key_included(kTraceKey)) {
    trace->flush();
    op.callBoxed(stack);
    return;
  }
  Recorder(*trace, op, stack).record();
}

}  // namespace saker::capture
