// Running what is pending: the raw recording, in order, through ATen.
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include "capture/trace.h"
#include "runtime/executable.h"

namespace saker::tracing {

namespace {

// Fills each storage of the trace as its contents are produced.
class Filling final : public runtime::Conduct {
 public:
  Filling(const ir::Graph& graph, Trace& trace, const std::vector<Filled>& storages)
      : trace_(trace), storages_(graph.valueLimit()) {
    for (const Filled& filled : storages) storages_[filled.value] = &filled;
  }

  void call(const runtime::Instruction& at, torch::jit::Stack& stack) override {
    bool grad = !at.node->attributes().noGrad;
    if (grad == c10::GradMode::is_enabled()) return at.handle->callBoxed(&stack);
    c10::AutoGradMode mode(grad);
    at.handle->callBoxed(&stack);
  }

  at::Tensor fresh(const ir::Value& value, at::Tensor real, const runtime::Geometry& told, bool moved) override {
    trace_.stats().layoutMismatches += moved;
    c10::intrusive_ptr<c10::StorageImpl> kept = waitingFor(value);
    if (!kept) return real;
    c10::Storage bytes = real.storage();
    real.reset();
    static_cast<TraceStorage*>(kept.get())->fill(bytes);
    return runtime::tensorOver(c10::Storage(std::move(kept)), *value.tensor(), told);
  }

  // What a node with bodies gives is what a body returned: nobody sees it being made. It is returned by the graph.
  void returnBodies(ir::Graph& graph) {
    std::vector<ir::Arg> returned;
    for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
      for (size_t i = 0; !node->regions().empty() && i < node->resultCount(); ++i) {
        if (!waitingFor(*node->result(i))) continue;
        returned.push_back(ir::Arg::value(node->result(i)));
        late_.push_back(node->result(i));
      }
    }
    if (!returned.empty()) graph.appendReturn(graph.top(), returned);
  }
  void fillReturned(runtime::Run& run, const sym::Assignment& symbols) {
    for (size_t i = 0; i < late_.size(); ++i) {
      c10::intrusive_ptr<c10::StorageImpl> kept = waitingFor(*late_[i]);
      if (!kept) continue;
      // A result has memory of its own, in the layout that was told, whatever the body returned.
      at::Tensor real = run.returned(i).toTensor();
      if (!real.defined()) continue;  // an operator before it has failed
      runtime::Geometry told = runtime::geometryOf(*late_[i]->tensor(), symbols);
      at::Tensor own = at::empty_strided(told.sizes, told.strides, real.options());
      own.copy_(real);
      static_cast<TraceStorage*>(kept.get())->fill(own.storage());
    }
  }

 private:
  c10::intrusive_ptr<c10::StorageImpl> waitingFor(const ir::Value& value) const {
    const Filled* filled = storages_[value.id()];
    c10::intrusive_ptr<c10::StorageImpl> kept = filled ? filled->storage.lock() : nullptr;
    return kept && static_cast<TraceStorage*>(kept.get())->root() ? kept : nullptr;
  }

  Trace& trace_;
  std::vector<const Filled*> storages_;  // by value
  std::vector<const ir::Value*> late_;
};

std::string place(const ir::Location* location) {
  if (!location) return "";
  return std::string(location->file) + ":" + std::to_string(location->line) + ", in " + std::string(location->function);
}

}  // namespace

void Trace::flush() {
  std::shared_ptr<Trace> self = shared_from_this();
  auto held = lock();
  if (isAttempting()) {
    raise(
        {ops::Reason::Unsupported, "data is needed while the body of an operator is recorded, which computes nothing"});
  }
  if (!pending()) {
    reset(/*dropKeys=*/true);
    return;
  }
  ++stats_.flushes;
  RunForReal real;
  // What runs may record again (a kernel written in Python): into a trace that is empty.
  std::unique_ptr<ir::Graph> graph = takeGraph();
  Filling filling(*graph, *this, storages_);
  filling.returnBodies(*graph);
  std::optional<runtime::Executable> executable;
  std::optional<runtime::Run> run;
  sym::Assignment symbols = sym::exampleAssignment(context()->symbols());
  try {
    executable.emplace(*graph, kept());
    run.emplace(*executable, &filling);
    run->sizes().assume(symbols);
    for (const Input& input : inputs()) {
      const ir::TensorType& type = *input.value->tensor();
      run->set(input.value, runtime::tensorOver(input.storage, type, runtime::geometryOf(type, symbols)));
    }
    run->run();
    filling.fillReturned(*run, symbols);
  } catch (c10::Error& error) {
    std::string where = place(run && run->running() ? run->running()->location() : nullptr);
    if (!where.empty()) error.add_context("This operator was recorded at " + where + ".");
    if (run) filling.fillReturned(*run, symbols);
    poisonPending(std::current_exception(), error.what_without_backtrace());
    reset(/*dropKeys=*/false);
    throw;
  } catch (const std::exception& error) {
    if (run) filling.fillReturned(*run, symbols);
    poisonPending(std::current_exception(), error.what());
    reset(/*dropKeys=*/false);
    throw;
  }
  constexpr const char* kNothing = "the operator that was to make this tensor made none";
  poisonPending(std::make_exception_ptr(std::runtime_error(kNothing)), kNothing);
  reset(/*dropKeys=*/true);
}

}  // namespace saker::tracing
