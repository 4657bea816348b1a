// Running what is pending: the raw recording, in order, through ATen.
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
    c10::intrusive_ptr<c10::StorageImpl> kept;
    if (const Filled* filled = storages_[value.id()]) kept = filled->storage.lock();
    auto* waiting = static_cast<TraceStorage*>(kept.get());
    if (!waiting || !waiting->root()) return real;
    c10::Storage bytes = real.storage();
    real.reset();
    waiting->fill(bytes);
    return runtime::tensorOver(c10::Storage(std::move(kept)), *value.tensor(), told);
  }

 private:
  Trace& trace_;
  std::vector<const Filled*> storages_;  // by value
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
  std::optional<runtime::Executable> executable;
  std::optional<runtime::Run> run;
  try {
    executable.emplace(*graph, kept());
    Filling filling(*graph, *this, storages_);
    run.emplace(*executable, &filling);
    sym::Assignment symbols = sym::exampleAssignment(context()->symbols());
    run->sizes().assume(symbols);
    for (const Input& input : inputs()) {
      const ir::TensorType& type = *input.value->tensor();
      run->set(input.value, runtime::tensorOver(input.storage, type, runtime::geometryOf(type, symbols)));
    }
    run->run();
  } catch (c10::Error& error) {
    std::string where = place(run && run->running() ? run->running()->location() : nullptr);
    if (!where.empty()) error.add_context("This operator was recorded at " + where + ".");
    poisonPending(std::current_exception(), error.what_without_backtrace());
    reset(/*dropKeys=*/false);
    throw;
  } catch (const std::exception& error) {
    poisonPending(std::current_exception(), error.what());
    reset(/*dropKeys=*/false);
    throw;
  }
  constexpr const char* kNothing = "the operator that was to make this tensor made none";
  poisonPending(std::make_exception_ptr(std::runtime_error(kNothing)), kNothing);
  reset(/*dropKeys=*/true);
}

}  // namespace saker::tracing
