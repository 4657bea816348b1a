// A trace: what a thread has recorded and not yet run. It keeps no TensorImpl of the program: inputs are kept as
// aliases (storage and geometry), results as values of the graph, and living trace tensors in an intrusive list.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/InferenceMode.h>

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "capture/memory_set.h"
#include "capture/recording.h"
#include "capture/trace_tensor.h"
#include "capture/user_write.h"
#include "ops/infer.h"

namespace saker::tracing {

enum class Mode : uint8_t {
  Deferred,  // what cannot be recorded flushes and runs
  Capture,   // what cannot be recorded is refused
};

// A real tensor met in a trace.
struct Input {
  ir::Value* value;
  c10::Storage storage;
  at::Tensor tensor;     // in Mode::Capture: the first tensor met that is this
  bool literal = false;  // written in the program: its data is a constant
};

// A storage that waits, and the value that fills it. It may die before, on any thread.
struct Filled {
  uint32_t value;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
};

struct TraceStats {
  uint64_t recorded = 0;
  uint64_t flushes = 0;
  uint64_t ranAtOnce = 0;         // operators that could not wait
  uint64_t layoutMismatches = 0;  // results whose strides were told wrongly, and copied
  uint64_t fallbacks = 0;         // inferred by ATen's meta kernel
};

class Undo;
struct VersionMoves;

// What a backward reads is a view of a tensor that stands for it, made by the node of autograd's of this name.
struct ReadAs {
  const ir::TensorType* type;
  std::string maker;
  uint32_t output;
};
using ReadObserver = std::function<void(const at::Tensor& read, const ReadAs* as)>;

class Trace final : public Recording, public std::enable_shared_from_this<Trace> {
 public:
  // A context that is given has the symbols of another recording, and their facts.
  Trace(Mode mode, Host host, std::shared_ptr<ir::Context> context = nullptr);
  // A body of a node of the recording around it, which lives longer (capture/body.h). Whatever cannot be recorded in it
  // is refused.
  Trace(Recording& outer, ir::Region* body);
  ~Trace() override;

  Mode mode() const { return mode_; }
  TraceStats& stats() { return stats_; }
  bool pending() const { return graph().liveNodes() != 0; }

  // From now on nodes tell whether inference mode is other than it is here.
  void noteInferenceMode() { inferenceHere_ = c10::InferenceMode::is_enabled(); }
  ir::Attributes modesOf(const Entry* entry) const override;
  // The value of a tensor: its own, the one of its storage seen through its geometry, or a new input.
  ir::Value* valueOf(const at::Tensor& tensor) override;
  ir::Value* addLiteral(const at::Tensor& constant) override;
  bool made(const at::Tensor& tensor) const override { return isPending(tensor) || (outer() && outer()->made(tensor)); }
  // Is a tensor one of this level: made here, and not by a recording around it?
  bool owns(const c10::TensorImpl& tensor) const;
  // Is the other trace this one, or one that this is a body in?
  bool isWithin(const Trace& other) const;
  // A tensor that stands for a result: fresh, or sharing the storage of `base`.
  at::Tensor makeTensor(ir::Value* value, const c10::Storage* base);
  // Sets the sizes, strides and offset that an operator has given to a tensor (t_, out=).
  void setGeometry(const at::Tensor& tensor, ir::Value* value, const ir::TensorType& type);

  void noteWrite(const at::Tensor& tensor, VersionMoves moves);
  // Calls of operators of the user's that write, in their order.
  void noteUserWrite(UserWrite write) { userWrites_.push_back(std::move(write)); }
  const std::vector<UserWrite>& userWrites() const { return userWrites_; }
  // Whoever captures can do without: then eager mode runs where something was recorded that no graph does as it does.
  void allowEager() { mayBeEager_ = true; }
  bool mayBeEager() const { return mayBeEager_; }
  void noteOnlyEager(const std::string& why) { onlyEager_ = onlyEager_.empty() ? why : onlyEager_; }
  const std::string& onlyEager() const { return onlyEager_; }
  // Has a tensor that the program made come to see the memory of an argument?
  void noteSetsMade() { setsMade_ = true; }
  bool setsMade() const { return setsMade_; }
  // What the trace has refused. The program may have caught it, and gone another way than eager mode does.
  const std::exception_ptr& refused() const { return refused_; }
  void forgetRefusal() { refused_ = nullptr; }
  // Does a pending operator write to the memory of this storage? Does one read it as an input? The storage has data.
  bool hasPendingWrite(const c10::StorageImpl* storage) const {
    return written_.count(storage) != 0 || writtenMemory_.overlaps(*storage);
  }
  bool isInput(const c10::StorageImpl* storage) const {
    return inputsOf_.count(storage) != 0 || inputMemory_.overlaps(*storage);
  }
  // Something outside of PyTorch may read or write this memory from now on, at any time.
  void expose(const c10::StorageImpl& storage) { exposed_.add(storage); }
  // May something outside of PyTorch read or write the memory of this tensor?
  bool isExposed(const at::Tensor& tensor) const;
  // Is data of this tensor still to come?
  bool isPending(const at::Tensor& tensor) const;

  // Runs what is pending; afterwards every living trace tensor is an ordinary one. If an operator fails, what came
  // before it is there, what came after raises the same error when used, and that error is thrown.
  void flush();
  // Forgets what is pending: tensors that were to be filled raise this when used.
  void abandon(const ops::Refusal& why);
  // Raises a refusal in the language of the program.
  [[noreturn]] void raise(const ops::Refusal& refusal, const std::string& op = {});
  std::exception_ptr error(const ops::Refusal& refusal, const std::string& op = {});
  using Recording::takeGraph;

  const std::vector<Input>& inputs() const { return inputs_; }
  // Where autograd's node of this number was made, so that what its backward records has a place in the program.
  void noteSequence(uint64_t number, const ir::Location* location);
  const ir::Location* locationOfSequence(uint64_t number) const;
  // Where the program stands; in a backward, where the forward operator was called.
  const ir::Location* whereAmI();
  // The program has set the state of a generator (manual_seed, set_rng_state), which passes no operator.
  void noteGeneratorSet() { generatorSet_ = true; }
  bool generatorSet() const { return generatorSet_ || (around_ && around_->generatorSet()); }
  Undo& undo() { return *undo_; }
  // Called with each tensor that an operator of a backward is given.
  void observeReads(ReadObserver observer) { readObserver_ = std::move(observer); }
  const ReadObserver& readObserver() const { return readObserver_; }

  // Of a body: the tensors that the recording around it has lent, and what they are there.
  const std::vector<std::pair<ir::Value*, at::Tensor>>& lent() const { return lent_; }
  // Of a body: it begins; it ends well, and the recording around it takes over what it did; it ends, and tensors that
  // were made in it raise this when used.
  void enterBody();
  void handOver();
  void endBody(const char* why);

  // One thread records or flushes at a time. Waiting for it lets go of what the language holds.
  std::unique_lock<std::recursive_mutex> lock();

 private:
  friend class TraceStorage;
  friend class TraceTensor;
  Restore checkpoint() override;
  void countNode() override { ++stats_.recorded; }
  void forgetValues(uint32_t first);
  ir::Value* inputFor(const at::Tensor& tensor);
  ir::Value* valueAround(const at::Tensor& tensor);
  void noteWriteAround(const at::Tensor& tensor, TraceStorage& storage, VersionMoves moves);
  // What `tensor` is, over the memory of `value`: a detach of it.
  ir::Value* detached(ir::Value* value, bool ownVersion);
  ir::Value* viewOfStorage(const at::Tensor& tensor, ir::Value* root);
  void settleTensors(bool dropKeys);
  void poisonPending(std::exception_ptr why, const std::string& text);
  void reset(bool dropKeys);

  Mode mode_;
  std::optional<bool> inferenceHere_;
  Trace* around_ = nullptr;  // of a body: the recording around it, where that is a trace
  Trace* inner_ = nullptr;   // a body that is being recorded
  std::vector<Input> inputs_;
  struct Met {
    ir::Value* value;
    at::Tensor tensor;  // in Mode::Capture
  };
  std::unordered_map<const c10::StorageImpl*, std::vector<Met>> inputsOf_;
  std::unordered_map<const c10::StorageImpl*, bool> written_;
  std::vector<Filled> storages_;
  std::unordered_map<uint64_t, const ir::Location*> sequences_;
  const ir::Location* lastLocation_ = nullptr;
  bool generatorSet_ = false;
  std::vector<UserWrite> userWrites_;
  bool mayBeEager_ = false;
  std::exception_ptr refused_;
  std::string onlyEager_;
  bool setsMade_ = false;
  std::unique_ptr<Undo> undo_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> writtenAround_;  // of traces around, first written here
  std::vector<std::pair<ir::Value*, at::Tensor>> lent_;
  ReadObserver readObserver_;
  TraceTensor* living_ = nullptr;
  std::mutex listLock_;  // of living_: tensors die on any thread
  std::recursive_mutex lock_;
  TraceStats stats_;
  // Of storages with data: what pending operators write and read, and what others may see at any time.
  MemorySet writtenMemory_, inputMemory_, exposed_;
};

// The trace of this thread, or nullptr.
Trace* current();

// Takes whatever trace is on off this thread, for good.
void leaveMode();

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

}  // namespace saker::tracing
