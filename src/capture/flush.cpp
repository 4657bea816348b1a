// Running what is pending: the raw recording, in order, through ATen.
#include "capture/trace.h"
#include "runtime/interpreter.h"

namespace saker::capture {

namespace {

// Fills each storage of the trace as its contents are produced.
class FlushRun final : public runtime::Interpreter {
 public:
  FlushRun(Trace& trace, const std::vector<TraceStorage*>& storages)
      : Interpreter(trace.graph(), sym::exampleAssignment(trace.context()->symbols())),
        trace_(trace),
        storages_(storages) {
    for (const Input& input : trace.inputs()) {
      const ir::TensorType& type = *input.value->tensor();
      set(input.value, runtime::tensorOver(input.storage, type, runtime::geometryOf(type, symbols())));
    }
  }

  c10::IValue opaque(const ir::OpaqueRef& reference) override { return trace_.kept(reference.number); }

 protected:
  at::Tensor fresh(const ir::Value& value, at::Tensor real) override {
    bool moved = false;
    real = inToldLayout(value, std::move(real), moved);
    trace_.stats().layoutMismatches += moved;
    TraceStorage* storage = value.id() < storages_.size() ? storages_[value.id()] : nullptr;
    if (!storage) return real;
    auto kept = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage);
    c10::Storage bytes = real.storage();
    real.reset();
    storage->fill(bytes);
    return runtime::tensorOver(c10::Storage(std::move(kept)), *value.tensor(),
                               runtime::geometryOf(*value.tensor(), symbols()));
  }

 private:
  Trace& trace_;
  const std::vector<TraceStorage*>& storages_;
};

}  // namespace

void Trace::flush() {
  std::shared_ptr<Trace> self = shared_from_this();
  std::lock_guard guard(lock_);
  if (!pending()) return;
  ++stats_.flushes;
  RunForReal real;
  try {
    FlushRun(*this, storages_).run();
  } catch (const std::exception& error) {
    poisonPending(std::string("an operator recorded before this tensor failed when it ran: ") + error.what());
    reset();
    throw;
  }
  reset();
}

}  // namespace saker::capture
