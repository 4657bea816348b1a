// Running what is pending: the raw recording, in order, through ATen.
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include "capture/trace.h"
#include "runtime/interpreter.h"

namespace saker::tracing {

namespace {

// Fills each storage of the trace as its contents are produced.
class FlushRun final : public runtime::Interpreter {
 public:
  FlushRun(const ir::Graph& graph, Trace& trace, const std::vector<Filled>& storages)
      : Interpreter(graph, sym::exampleAssignment(trace.context()->symbols())),
        trace_(trace),
        storages_(graph.valueLimit()) {
    for (const Filled& filled : storages) storages_[filled.value] = &filled;
    for (const Input& input : trace.inputs()) {
      const ir::TensorType& type = *input.value->tensor();
      set(input.value, runtime::tensorOver(input.storage, type, runtime::geometryOf(type, symbols())));
    }
  }

  c10::IValue opaque(const ir::OpaqueRef& reference) override { return trace_.kept()[reference.number]; }

 protected:
  void call(const ir::Node& node, const c10::OperatorHandle& handle, torch::jit::Stack& stack) override {
    bool grad = !node.attributes().noGrad;
    if (grad == c10::GradMode::is_enabled()) return handle.callBoxed(&stack);
    c10::AutoGradMode mode(grad);
    handle.callBoxed(&stack);
  }

  at::Tensor fresh(const ir::Value& value, at::Tensor real) override {
    bool moved = false;
    real = inToldLayout(value, std::move(real), moved);
    trace_.stats().layoutMismatches += moved;
    c10::intrusive_ptr<c10::StorageImpl> kept;
    if (const Filled* filled = storages_[value.id()]) kept = filled->storage.lock();
    auto* waiting = static_cast<TraceStorage*>(kept.get());
    if (!waiting || !waiting->root()) return real;
    c10::Storage bytes = real.storage();
    real.reset();
    waiting->fill(bytes);
    return runtime::tensorOver(c10::Storage(std::move(kept)), *value.tensor(),
                               runtime::geometryOf(*value.tensor(), symbols()));
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
  if (!pending()) {
    reset(/*dropKeys=*/true);
    return;
  }
  ++stats_.flushes;
  RunForReal real;
  // What runs may record again (a kernel written in Python): into a trace that is empty.
  std::unique_ptr<ir::Graph> graph = takeGraph();
  FlushRun run(*graph, *this, storages_);
  try {
    run.run();
  } catch (c10::Error& error) {
    std::string where = place(run.running() ? run.running()->location() : nullptr);
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
