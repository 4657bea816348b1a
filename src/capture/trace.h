// A trace: what a thread has recorded and not yet run. It keeps no TensorImpl of the program: inputs are kept as
// aliases (storage and geometry), results as values of the graph, and living trace tensors in an intrusive list.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "aten/infer.h"
#include "capture/trace_tensor.h"
#include "ir/graph.h"
#include "ops/infer.h"

namespace saker::capture {

enum class Mode : uint8_t {
  Deferred,  // what cannot be recorded flushes and runs
  Capture,   // what cannot be recorded is refused
};

// A real tensor met in a trace.
struct Input {
  ir::Value* value;
  c10::Storage storage;
};

// What the trace asks of the language it serves. All may be left out.
aten::Hooks plainHooks();
struct Host {
  aten::Hooks hooks = plainHooks();
  // The user's place in the program.
  const ir::Location* (*location)(ir::Context& context) = nullptr;
  // Raises a refusal of Mode::Capture as an error of that language; must not return.
  void (*refuse)(const ops::Refusal& refusal, const std::string& op, const ir::Location* location) = nullptr;
};

struct TraceStats {
  uint64_t recorded = 0;
  uint64_t flushes = 0;
  uint64_t ranAtOnce = 0;         // operators that could not wait
  uint64_t layoutMismatches = 0;  // results whose strides were told wrongly, and copied
  uint64_t fallbacks = 0;         // inferred by ATen's meta kernel
};

class Trace : public std::enable_shared_from_this<Trace> {
 public:
  Trace(Mode mode, Host host);
  ~Trace();

  Mode mode() const { return mode_; }
  const Host& host() const { return host_; }
  ir::Graph& graph() { return *graph_; }
  const std::shared_ptr<ir::Context>& context() const { return context_; }
  aten::Inference& inference() { return inference_; }
  TraceStats& stats() { return stats_; }
  bool pending() const { return graph_->liveNodes() != 0; }

  // The value of a tensor: its own, the one of its storage seen through its geometry, or a new input.
  ir::Value* valueOf(const at::Tensor& tensor);
  // A tensor that stands for a result: fresh, or sharing the storage of `base`.
  at::Tensor makeTensor(ir::Value* value, const c10::Storage* base);
  // Sets the sizes, strides and offset that an operator has given to a tensor (t_, resize_, out=).
  void setGeometry(const at::Tensor& tensor, ir::Value* value, const ir::TensorType& type);
  void noteWrite(const at::Tensor& tensor);
  bool hasPendingWrite(const c10::StorageImpl* storage) const { return written_.count(storage) != 0; }

  // Runs what is pending; afterwards every living trace tensor is an ordinary one. If an operator fails, what came
  // before it is there, what came after raises the same error when used, and that error is thrown.
  void flush();
  // Forgets what is pending: tensors that were to be filled raise `why` when used.
  void abandon(const std::string& why);

  const std::vector<Input>& inputs() const { return inputs_; }
  std::recursive_mutex& lock() { return lock_; }
  // Objects that arguments refer to by number (generators).
  uint64_t keep(c10::IValue object);
  const c10::IValue& kept(uint64_t number) const { return kept_[number]; }

 private:
  friend class TraceStorage;
  friend class TraceTensor;
  ir::Value* inputFor(const at::Tensor& tensor);
  ir::Value* viewOfStorage(const at::Tensor& tensor, ir::Value* root);
  void settleTensors();
  void poisonPending(const std::string& why);
  void reset();

  Mode mode_;
  Host host_;
  std::shared_ptr<ir::Context> context_;
  std::unique_ptr<ir::Graph> graph_;
  aten::Inference inference_;
  std::vector<Input> inputs_;
  std::unordered_map<const c10::StorageImpl*, std::vector<ir::Value*>> inputsOf_;
  std::unordered_map<const c10::StorageImpl*, bool> written_;
  std::vector<TraceStorage*> storages_;  // by the number of the value that fills them
  std::vector<c10::IValue> kept_;
  TraceTensor* living_ = nullptr;
  std::recursive_mutex lock_;
  TraceStats stats_;
};

// The trace of this thread, or nullptr.
Trace* current();

// Puts a trace on for this thread, and takes it off. Scopes nest; the inner one hides the outer.
class TraceScope {
 public:
  explicit TraceScope(std::shared_ptr<Trace> trace);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  std::shared_ptr<Trace> trace_;
  Trace* previous_;
  bool wasRecording_;
};

}  // namespace saker::capture
