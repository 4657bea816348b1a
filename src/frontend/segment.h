// One recorded way through a function: under which guards it holds, what it does without Python, and where it ends. A
// segment does not change once it is recorded: several threads may replay it at the same time, since the interpreter's
// lock is released while its program runs. What belongs to one call is in a Replay (frontend/replay.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aot/compiled_function.h"
#include "capture/reasons.h"
#include "frontend/ambient.h"
#include "frontend/recipe.h"
#include "runtime/single_call.h"

namespace saker::frontend {

// What runs the tensor program: its inputs to its results.
using Executor = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

// The tensor program as it runs. It may be made when it is first run, where the call that was recorded has changed what
// its inputs look like; it is the same for all calls.
class Code {
 public:
  void set(Executor run) { run_ = std::move(run); }
  void setLate(std::function<Executor(const std::vector<at::Tensor>& inputs)> make) { late_ = std::move(make); }
  void clear() { run_ = nullptr, late_ = nullptr; }
  // There may be nothing to run.
  explicit operator bool() const { return run_ || late_; }
  // With the interpreter's lock held.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs);

 private:
  Executor run_;
  std::function<Executor(const std::vector<at::Tensor>& inputs)> late_;
};

// An effect as a replay does it: its arguments are recipes.
struct DoneAgain {
  Ref callable;  // none: a write to a cell
  std::vector<uint32_t> arguments;
  Ref names;
  bool early = false;
  bool inner = false;
};

// What an operator that fails, or gives another size, because of what tensors hold leads to: frontend/risk.cpp.
struct Hazards {
  bool risky = false;                               // there is one
  bool chooses = false;                             // data chose among objects
  bool drawsTorch = false;                          // numbers are drawn from PyTorch's generator
  std::optional<uint32_t> firstDone;                // the first node whose doing may not be taken back
  std::optional<uint32_t> firstWrite;               // the first that is known to write to what was there before
  std::vector<tracing::Tape::Risk::Before> before;  // by such an operator behind it, what is before it
  bool mustUndo = false;                            // the program goes on where the replay ends
  bool inOrder = false;                             // only the recording itself leaves behind what eager mode does
  bool unknown = false;                             // operators of the user's are called, which may do anything
  bool foreign = false;                             // a back end of the user's runs it
};

// Where a segment ends.
struct Exit {
  // A frame in which the program goes on: what is in its slots, as recipes, and at which instruction.
  struct Frame {
    static constexpr uint32_t kUnbound = ~0u;
    Ref code;
    uint32_t instruction = 0;
    std::vector<uint32_t> locals, stack;
  };
  enum class Kind : uint8_t { Returns, GoesOn } kind = Kind::Returns;
  uint32_t result = 0;        // Returns: the recipe of what is returned
  std::vector<Frame> frames;  // GoesOn: from the outside; no recording ends so yet
};

class Segment {
 public:
  Ambient ambient{};
  Guards guards;

  std::shared_ptr<runtime::Program> program;
  std::shared_ptr<Code> code = std::make_shared<Code>();
  std::shared_ptr<const runtime::SingleCall> single;  // what runs instead, where a call is one small operator
  std::shared_ptr<aot::CompiledFunction> compiled;    // what `code` runs, where gradients are compiled: for reports
  std::vector<uint32_t> inputs;                       // places of the program's arguments
  std::vector<uint32_t> memory;                       // by input: the first one that shares its memory
  std::vector<uint32_t> counters;                     // the same of version counters, among those that share memory
  std::vector<std::pair<size_t, uint32_t>> unseen;  // inputs written through .data, and by how much their versions move
  bool writes = false;
  bool alone = false;    // it writes, and calls nothing of the user's: other threads wait
  bool dynamic = false;  // some sizes of the inputs are symbols
  bool sets = false;     // flags change while it runs
  std::vector<Recipe> recipes;
  std::vector<DoneAgain> effects;
  std::optional<std::vector<uint32_t>> modes;  // of functions: those that the call leaves, where it changes them
  std::vector<Draw> draws;
  std::vector<uint32_t> histories;  // places of tensors of which the call changes what autograd knows
  size_t handles = 0;               // of hooks that the call registers
  std::vector<Asked> asked;
  std::vector<Ref> locks;  // that the call takes
  Hazards hazards;
  Exit exit;

  // --- while it is recorded ---
  // What the recorded call did to outside objects. False: something cannot be made again, as the book says.
  bool addEffects(const Recorder& recorder, Cookbook& book);
  // False: a replay that fails cannot do what the program does.
  bool takeRisk(const tracing::Tape::Risk& risk, bool repeatable);
  // Where there was no tape. Where an operator may fail behind a write, only graphs will do that write at their end.
  // False: nothing will do.
  bool takeRiskOf(const runtime::Program& given);
  // Where inputs begin in their memory is of no interest, but for those that the program reads by absolute places
  // (`exact`, by input) and those whose writes others see.
  void relaxOffsets(const std::vector<bool>& exact);
  // Its call may turn out to be nothing but one small operator.
  void shorten();
  // The recording is complete: of all places, only these matter to a replay.
  void settle();
  // It holds nothing but guards: calls to which they apply run eagerly.
  void keepGuardsOnly();

  // --- afterwards ---
  template <typename Visit>
  void eachObject(Visit visit) const {
    guards.eachObject(visit);
    for (const Recipe& recipe : recipes) visit(recipe.object.get());
    for (const Ref& lock : locks) visit(lock.get());
    for (const Asked& each : asked) {
      visit(each.function.get());
      visit(each.arguments.get());
      visit(each.answer.get());
    }
    for (const DoneAgain& effect : effects) {
      visit(effect.callable.get());
      visit(effect.names.get());
    }
  }
  // Is what is found there drawn, or made to draw from?
  bool drawnPlace(uint32_t place) const;
  // Do the sizes of the inputs meet what the program asks of them?
  bool sizesFit(const std::vector<at::Tensor>& tensors) const;

 private:
  bool needGraph(size_t count) const;
};

// A tensor, an array of numpy's as one, or a number as the size of one without elements.
at::Tensor tensorAt(PyObject* object);
// By input, the first one that it shares memory with, and whether that is through another storage.
std::vector<uint32_t> sharedMemory(const std::vector<at::Tensor>& tensors);
// By input, the first one that counts writes together with it; `memory` is what sharedMemory() says.
std::vector<uint32_t> sharedCounters(const std::vector<at::Tensor>& tensors, const std::vector<uint32_t>& memory);
// Does the program call operators of the user's, which may wait for other threads?
bool callsUserOperators(const ir::Graph& graph);

}  // namespace saker::frontend
