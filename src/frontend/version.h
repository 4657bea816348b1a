// One recorded way through a function: under which guards it holds, and how it is done again without Python.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "aot/compiled.h"
#include "capture/reasons.h"
#include "frontend/ambient.h"
#include "frontend/recipe.h"

namespace saker::frontend {

// What runs the tensor program: its inputs to its results.
using Executor = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& inputs)>;

struct DoneAgain {
  Ref callable;  // none: a write to a cell
  std::vector<uint32_t> arguments;
  Ref names;
  bool early = false;
  bool inner = false;
};

class Version {
 public:
  Ambient ambient{};
  Guards guards;
  // Set: the call runs eagerly, for this reason.
  std::optional<Stop> eager;

  std::shared_ptr<runtime::Program> program;
  std::vector<uint32_t> inputs;                     // places of the program's arguments
  std::vector<uint32_t> memory;                     // by input: the first one that shares its memory
  std::vector<std::pair<size_t, uint32_t>> unseen;  // inputs written through .data, and by how much their versions move
  bool writes = false;
  bool dynamic = false;  // some sizes of the inputs are symbols
  Executor executor;
  // Made when it is first run, where the first call has changed what its inputs look like.
  std::function<Executor(const std::vector<at::Tensor>& inputs)> late;
  std::vector<Recipe> recipes;
  uint32_t result = 0;
  std::vector<DoneAgain> effects;
  std::optional<std::vector<uint32_t>> modes;  // of functions: those that the call leaves, where it changes them
  std::vector<Draw> draws;
  size_t handles = 0;  // of hooks that the call registers
  std::vector<Asked> asked;
  std::vector<Ref> locks;  // that the call takes
  bool sets = false;       // flags change while it runs
  // What an operator that fails, or gives another size, because of what tensors hold leads to: frontend/risk.cpp.
  bool risky = false;                  // there is one
  bool drawsTorch = false;             // numbers are drawn from PyTorch's generator
  std::optional<uint32_t> firstDone;   // the first node whose doing may not be taken back
  std::optional<uint32_t> firstWrite;  // the first that is known to write to what was there before
  bool alone = false;                  // it writes: other threads wait
  std::recursive_mutex running;
  std::vector<tracing::Tape::Risk::Before> before;  // by such an operator behind it, what is before it
  bool mustUndo = false;                            // the program goes on where the replay ends
  bool inOrder = false;                             // only the recording itself leaves behind what eager mode does
  bool unknown = false;                             // operators of the user's are called, which may do anything
  bool foreign = false;                             // a back end of the user's runs it
  bool inGraph = false;                             // the tensor program runs, or has failed
  bool verified = false;                            // compared with eager mode, where that was asked for

  // What the recorded call did to outside objects. False: something cannot be made again, as the book says.
  bool addEffects(const Recorder& recorder, Cookbook& book);
  // The recording is complete: of all places, only these matter to run().
  void settle();
  // True: everything holds; `found` has what is at each place.
  bool fits(const Ambient& now, const CallArguments& call, std::vector<PyObject*>& found);
  template <typename Visit>
  void eachObject(Visit visit) const {
    guards.eachObject(visit);
    for (const Recipe& recipe : recipes) visit(recipe.object.get());
    for (const Ref& lock : locks) visit(lock.get());
    for (const DoneAgain& effect : effects) {
      visit(effect.callable.get());
      visit(effect.names.get());
    }
  }
  // Draws what the call drew. False, and as if nothing was drawn: something other than a float is another one.
  bool draw(std::vector<PyObject*>& found);
  // Is what is found there drawn, or made to draw from?
  bool drawnPlace(uint32_t place) const;
  // Do the sizes of the inputs meet what the program asks of them?
  bool sizesFit(const std::vector<at::Tensor>& tensors) const;
  // False: with an error set.
  bool redo(const DoneAgain& effect, Kitchen& kitchen) const;
  // A new reference, or nullptr with an error set.
  PyObject* run(const std::vector<PyObject*>& found);
  PyObject* runGraph(const std::vector<PyObject*>& found);  // throws
  // False: a replay that fails cannot do what the program does.
  bool takeRisk(const tracing::Tape::Risk& risk, bool repeatable);
  // Where there was no tape. False: an operator may fail behind a write, and what came before it is not known.
  bool takeRiskOf(const runtime::Program& given);
  bool needGraph(size_t count) const;
  // PyTorch's generator before the run; undefined where it will not be asked for.
  at::Tensor generatorBefore() const;
  // The run failed in the graph. True: all is as before it, and the call may begin again.
  bool takeBack(const at::Tensor& generator);
  // The run failed in the graph, and what it has done stays: so do the effects that come before.
  void doEffectsBefore(const std::vector<PyObject*>& found);
  // The same of numbers of Python's: those that come after the operator that failed have not been drawn.
  void drawOnlyBefore(const std::vector<PyObject*>& found);

 private:
  std::vector<Ref> drawn_;
  void putBackStates();
  std::vector<std::pair<Ref, Ref>> states_;  // generators of Python's from outside, before they were drawn from
};

// A tensor, an array of numpy's as one, or a number as the size of one without elements.
at::Tensor tensorAt(PyObject* object);
// By input, the first one that it shares memory with, and whether that is through another storage.
std::vector<uint32_t> sharedMemory(const std::vector<at::Tensor>& tensors);

}  // namespace saker::frontend
