// A tape: what a thread asks of PyTorch while it runs as ever. Unlike a trace, nothing waits: every operator runs at
// once, with eager's results and eager's errors, and is written down beside. The result is a program that does the same
// again.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/SmallVector.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "capture/counted_writes.h"
#include "capture/reasons.h"
#include "capture/recording.h"
#include "capture/whole.h"
#include "runtime/program.h"

namespace saker::tracing {

class Tape final : public Recording {
 public:
  explicit Tape(Host host);
  ~Tape() override;

  // A tensor that the program met and did not make.
  struct Input {
    ir::Value* value;
    at::Tensor tensor;
    int64_t version;  // when it was met
    uint32_t writes;  // of operators until then
    bool literal;     // written in the program: a copy of its data
  };

  // One call of an operator: runs it and writes it down. False: it is to be taken apart by its composite kernel.
  bool call(const Call& call);
  // The same where a tensor is made of others by a class that answers operators itself: the operator is one of the
  // program, what the class does for it is not. False: there is another reason for it to be answered so.
  bool callWrapped(const Call& call);
  // The same for an operator whose composite kernel uses memory itself (capture/whole.h), where it is called: above
  // autograd. False: it is to go on from there.
  bool callWhole(const Call& call, DirectUse use);

  // Something happened that running the graph again would not do; the first reason is kept.
  void spoil(Stop why, const std::string& op = {});
  const std::optional<Stop>& spoiled() const { return spoiled_; }
  const ir::Location* spoiledAt() const { return spoiledAt_; }

  size_t operators() const { return recorded_; }
  // Operators that fail, or give results of another size, because of what tensors hold, and what comes before them: a
  // replay that ends at such a one is to leave all as eager mode does.
  struct Risk {
    bool any = false;                    // there is such an operator
    bool sizes = false;                  // and one that may give another size
    bool expects = false;                // and one that stands for a question whose other answer was not recorded
    bool chooses = false;                // among these, one whose other answer leads on
    bool drew = false;                   // numbers are drawn from PyTorch's generator
    std::optional<uint32_t> firstDone;   // the first node that changes something outside, or may
    std::optional<uint32_t> firstWrite;  // the first that is known to
    bool unknown = false;                // that may be anything: an operator of the user's
    // Is there one behind it after which the program goes on, because it catches the error or sizes may be others?
    bool goesOn = false, sizesGoOn = false;
    bool goesOnAnywhere = false;
    // By node, how many effects the program has had before it, and how many numbers of Python's it has drawn.
    struct Before {
      uint32_t node;
      size_t effects, draws;
    };
    std::vector<Before> before, beforeAnywhere;
    std::string op;  // the last one
  };
  const Risk& risk() const { return risk_; }
  // Has an operator failed?
  bool failed() const { return failed_; }
  // Of the program, where an operator is called: would it notice an error (`any`: of any class), how many effects has
  // it had, and how many numbers of Python's has it drawn?
  struct Around {
    bool handled;
    size_t effects;
    size_t draws = 0;
    size_t outside = 0;  // of the effects, those that others can see before the call ends
    size_t frames = 0;   // of Python's that were entered
  };
  void setAround(std::function<Around(bool any)> ask) { around_ = std::move(ask); }

  // Has an operator behind the first `mark` ones written to memory that was there before them?
  bool wroteOlder(size_t mark) const;
  const std::vector<Input>& inputs() const { return inputs_; }
  ir::Value* valueOf(const at::Tensor& tensor) override;
  ir::Value* lend(const at::Tensor& tensor) override;
  ir::Value* addLiteral(const at::Tensor& constant) override;
  bool made(const at::Tensor& tensor) const override { return known_.contains(tensor.unsafeGetTensorImpl()); }
  ir::Attributes modesOf(const Entry* entry) const override;
  // Has an operator here given it?
  bool computed(const at::Tensor& tensor) const;

  // `alias` is `tensor.data`: another tensor over its memory, which no operator made.
  void sharesData(const at::Tensor& alias, const at::Tensor& tensor);
  // What was written through `.data`, which its version does not show.
  const std::vector<at::Tensor>& unseenWrites() const { return unseen_; }

  // The program is about to detach this tensor in place, and whoever watches it does that again.
  void detaches(const at::Tensor& tensor) { detached_ = tensor.unsafeGetTensorImpl(); }

  // The program takes gradients itself, without putting them into .grad: what that asks for is written down as well.
  void allowGradients() { gradients_ = true; }

  // A node with bodies, which was run by whoever appended it, gave this tensor.
  void gave(const at::Tensor& tensor, ir::Value* result) { know(tensor, result); }

  // `copy` was made by no operator, and holds what the result `tensor` of one does.
  void standsFor(const at::Tensor& copy, const at::Tensor& tensor) { know(copy, valueOf(tensor)); }

  // A tensor from outside that the program is about to use: an input, even if it looks like a number.
  void meet(const at::Tensor& tensor) { valueOf(tensor); }
  // The next operator is given a number that is not the program's own, but what the tensor `source` (of no dimensions)
  // holds: it becomes an operand. took() says whether the operator took it as one.
  void expect(const at::Scalar& number, const at::Tensor& source);
  bool took();

  // --- numbers of Python that are others in each run (tape_numbers.cpp) ---
  // The number in a tensor from outside, which has no dimensions and is never written.
  const sym::Node* numberIn(const at::Tensor& source);
  // The next operator may be `.item()` of a tensor of floats: it is recorded, and takeItem() has its result.
  void permitItem() { permitsItem_ = true, item_ = nullptr; }
  const sym::Node* takeItem();
  // Where the number of an item comes from: a tensor from outside (on the CPU, of no dimensions), to which the program
  // has added these numbers before it read the item. Nothing: it may be anything else.
  struct ItemSource {
    at::Tensor tensor;
    std::vector<double> added = {};
    // What an item is where the tensor holds `number`; `single`: of 32 bits.
    static double compute(double number, std::span<const double> added, bool single);
  };
  std::optional<ItemSource> sourceOfItem(const sym::Node* item) const;
  // Tensors of no dimensions that the next operator may take for numbers: PyTorch then reads them before it calls the
  // operator. tookNumbers() says whether it has taken them.
  void expectReads(std::string function, std::span<const at::Tensor> maybe);
  // An operator has arrived as it was called: what is read from now on, its kernel reads.
  void begins(const c10::OperatorHandle& op);
  // Python has computed this number here, and raises where it has no value.
  void mayRaise(const sym::Node* number);
  // A tensor of no dimensions that holds such a number, which is `value` now.
  at::Tensor tensorOf(const sym::Node* number, double value);
  // Arguments of the next operator that are such numbers, or lists of numbers among which some are.
  struct GivenNumber {
    std::vector<double> values;
    std::vector<const sym::Node*> numbers;  // nullptr: a constant
    at::Tensor source;                      // of a number that a tensor from outside holds
    bool list = false;
    bool taken = false;
  };
  // `function` is what the program calls, by the name of its operator. tookNumbers() says whether the operator has
  // taken all of them.
  void expectNumbers(std::string function, std::vector<GivenNumber> given);
  bool tookNumbers();
  bool givesNumbers() const { return expectedNumbers_ && !expectedNumbers_->given.empty(); }
  bool usesNumbers() const { return items_ != 0; }

  // Ends the tape: a program whose arguments are the inputs, in order, and whose results are these tensors. An output
  // that no operator has touched becomes an input.
  std::unique_ptr<runtime::Program> finish(std::span<const at::Tensor> outputs);

 private:
  struct Known {
    ir::Value* value;
    const c10::StorageImpl* storage;
    c10::weak_intrusive_ptr<c10::TensorImpl> impl;  // keeps the address from being used again
  };

  // A tensor over memory made here that no operator made came by another door.
  struct Memory {
    bool made;
    size_t born, written;  // when, by number of operators
    c10::weak_intrusive_ptr<c10::StorageImpl> impl;
    // Has an operator put something there? If none has, and it is read, a kernel has written it by itself.
    bool filled = true;
    size_t writes = 0;  // by operators, those of lists once for each element
  };

  Restore checkpoint() override;
  void countNode() override { ++recorded_; }
  ir::Value* sourceOf(const at::Tensor& number) override;
  // The value that another tensor over the same memory, of the same geometry, has: autograd keeps such ones.
  ir::Value* valueSaved(const at::Tensor& tensor);
  void noteHiddenWrites(const Call& call, const Entry* entry);
  bool isWrapper(const at::Tensor& tensor) const;
  void perform(const Call& call, const Entry* entry, void (*run)(Tape& tape, const Call& call));
  bool readsLiteral(const Call& call) const;
  bool isLiteral(const at::Tensor& tensor) const;
  void noteFilled(const Call& call, const Entry* entry);
  std::optional<Around> noteRisk(const Call& call, const Entry* entry);
  void refuseEffects(const Call& call, const std::optional<Around>& before);
  bool changesOutside(const Call& call, const Entry* entry, std::span<Memory* const> written);
  bool followsFromLiterals(const ir::Value* value, std::unordered_set<const ir::Value*>& cone) const;
  bool isWritten(const std::unordered_set<const ir::Value*>& values) const;
  c10::SmallVector<Memory*, 2> memoriesWritten(const Call& call, const Entry* entry);
  void know(const at::Tensor& tensor, ir::Value* value);
  bool replayable(const Call& call, const Entry* entry);
  bool recordCheck(const Call& call);
  bool isRecorded(const Call& call, const Entry* entry);
  void recordLiteral(const Call& call);
  void note(const Converted& converted, const Call& call, ir::Origin origin);
  const sym::Node* appendItem(const at::Tensor& tensor, ir::Value* value, double number);
  bool recordItem(const Call& call);
  void noteEntered(const at::Tensor& tensor, const ir::Value* value);
  std::span<const ir::Arg> withNumbers(const Call& call, std::span<const ir::Arg> args);

  std::vector<Input> inputs_;
  std::unordered_map<const c10::TensorImpl*, Known> known_;
  std::unordered_map<const c10::StorageImpl*, Memory> storages_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> aliases_;  // made by sharesData: what they share memory with
  std::vector<at::Tensor> unseen_;
  const c10::TensorImpl* detached_ = nullptr;  // see detaches()
  bool failed_ = false;
  bool wasInference_, hadGrad_;  // around the call
  struct Expected {
    at::Scalar number;
    at::Tensor source;
    bool taken = false;
  };
  std::optional<Expected> expected_;
  struct ExpectedNumbers {
    std::string function;
    std::vector<GivenNumber> given;
    std::vector<at::Tensor> maybe = {};  // what may be read before the operator is called
  };
  bool readsForOperator(const Call& call);
  std::optional<double> writtenNumber(const ir::Value* value) const;
  std::optional<ExpectedNumbers> expectedNumbers_;
  struct Item {
    at::Tensor tensor;
    const ir::Node* node;
    size_t writes;  // to its memory, before it was read
    double value;
  };
  std::unordered_map<const sym::Node*, Item> itemOf_;
  std::unordered_map<const ir::Value*, double> entered_;  // what scalars from outside held when they were met
  std::unordered_map<const c10::TensorImpl*, const sym::Node*> numbers_;  // by tensor from outside
  bool permitsItem_ = false;
  const sym::Node* item_ = nullptr;
  size_t items_ = 0;  // numbers that are read from tensors
  Risk risk_;
  std::function<Around(bool any)> around_;
  bool gradients_ = false;
  const void* node_;  // of autograd, that runs while the call is made: its backward is what is compiled
  bool userWrote_ = false;
  CountedWrites counted_;
  std::optional<Stop> spoiled_;
  const ir::Location* spoiledAt_ = nullptr;
  size_t recorded_ = 0;
};

// The tape of this thread, or nullptr.
Tape* currentTape();
// Takes the tape off this thread before its scope ends.
void leaveTape();
// Takes a tape off that may be under others, or wait for a scope that takes any off: it is not put on any more.
void leaveTape(const Tape& tape);

// Puts a tape on for this thread, or takes any off (nullptr), while one lives.
class TapeScope {
 public:
  explicit TapeScope(Tape* tape);
  ~TapeScope();
  TapeScope(const TapeScope&) = delete;
  TapeScope& operator=(const TapeScope&) = delete;

 private:
  friend void leaveTape(const Tape& tape);
  TapeScope* outer_;
  Tape* previous_;
  bool wasRecording_;
};

}  // namespace saker::tracing
