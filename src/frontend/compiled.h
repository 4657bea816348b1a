// The callable that saker.compile gives: checks its segments, replays the one that fits, and otherwise records the
// call.
#pragma once

#include <Python.h>

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "frontend/replay.h"
#include "frontend/usage.h"
#include "passes/stages.h"

namespace saker::frontend {

// Counts since the start or the last reset.
struct Counts {
  uint64_t frames = 0, graphs = 0, operators = 0, guards = 0, replays = 0, recompiles = 0, breaks = 0, fallbacks = 0;
  std::array<uint64_t, kStopReasons> stops{};    // by Why: reports that tell this reason
  std::array<uint64_t, kStopReasons> instead{};  // the same of recordings whose gradients are not compiled
};
Counts& counts();

struct Options {
  bool fullgraph = false;
  bool ahead = true;  // through ahead-of-time autograd; else the recording itself runs
  Ref backend;        // (program, example inputs) -> callable; or nothing
  enum class Dynamic : uint8_t { Never, WhenChanged, Always } dynamic = Dynamic::WhenChanged;
  size_t limit = 8;  // segments of one function; 0: the limit of the process
  runtime::NativeCode native = {};
  bool verify = false;  // compare the first replay of each segment with eager mode
};

// What happened to one call that was recorded, for reports.
struct Report {
  std::string outcome;                   // "captured", "eager", or "static": not with symbolic sizes
  std::optional<Stop> why;               // it cannot be replayed; nothing: it can
  std::optional<Stop> instead;           // it is, but its gradients are not compiled
  std::vector<passes::StageRun> stages;  // that compiled them
  std::string changed;                   // the guard that failed before; empty: the first call
  std::vector<bool> exactOffsets;        // see Made, in frontend/execute.h
  bool internal = false;                 // the failure is Saker's own
  bool again = false;                    // the next call is recorded in another way, which may go better
  size_t frames = 0, operators = 0, guards = 0, effects = 0;
  double watching = 0, compiling = 0;  // seconds; the first with running the operators
};

// A failure of Saker's own in place of a compiled function: counted, told once for a function, never raised.
void tellInternalFailure(const std::string& what, const std::string& where);
// The next compiling fails, for tests of the above.
void failNext(const std::string& text);
void failIfAsked();

class Locked;  // the locks that a recorded call takes

// What a function does with calls to which the guards of a segment apply.
struct Known {
  std::shared_ptr<const Segment> segment;
  std::optional<Stop> eager;  // they run eagerly, for this reason
  bool verified = false;      // a replay was compared with eager mode, where that was asked for
  size_t number = 0;          // counts the recordings of the function
};

class Compiled {
 public:
  Compiled(PyObject* function, Options options);
  ~Compiled();

  PyObject* call(PyObject* const* args, size_t nargsf, PyObject* names);
  // Letting go of segments may run code of the program, which may call this function, or end it.
  void forget() { forgotten(); }
  std::vector<Known> forgotten() { return std::exchange(known_, {}); }
  const std::vector<Known>& known() const { return known_; }
  const std::vector<Report>& reports() const { return reports_; }
  PyObject* function() const { return function_.get(); }
  const Usage& usage() const { return usage_; }
  void forgetUsage() { usage_ = {}; }
  uint64_t number() const { return number_; }  // in the order in which functions were compiled
  void setFunction(PyObject* function) { function_ = Ref::borrow(function); }

 private:
  // The function itself is called; `why`: instead of a replay.
  PyObject* plain(PyObject* const* args, size_t nargsf, PyObject* names, std::optional<Why> why = std::nullopt,
                  Times* times = nullptr);
  PyObject* capture(const Ambient& before, PyObject* const* args, size_t nargsf, PyObject* names);
  // No recording fits: what the nearest one expected, and what was found. `otherwise`: what did not hold besides
  // guards.
  void noteChange(const Ambient& now, const CallArguments& call, const std::string& otherwise);
  void keep(Known known);
  // Which floats keep the call from being replayed?
  void noteFloats(const CallArguments& call);
  // A segment with symbolic sizes, where that can be; its result, or nullptr and no error set.
  PyObject* captureDynamic(const Ambient& before, const CallArguments& call);
  // Nothing, or why the call cannot be done again.
  std::optional<Stop> finish(Segment& segment, Recorder& recorder, tracing::Tape& tape, PyObject* result,
                             Report& report);
  bool warnLimit();
  // `first`: it is the run of a call that was recorded without one, and not counted.
  PyObject* replay(Replay& replay, const CallArguments& call, Locked* locked = nullptr, bool first = false);
  // Where a segment is now among the known ones; nothing: it was forgotten.
  std::optional<size_t> numberOf(const Segment& segment) const;
  // Calls to which the guards of the segment apply run eagerly from now on.
  void noteEager(const Segment& segment, Why why);
  // Something around the call keeps it from being recorded: told once.
  void noteAround(Why why);
  std::optional<Stop> finishSafely(Segment& segment, Recorder& recorder, tracing::Tape& tape, PyObject* result,
                                   Report& report);
  void note(const Report& report, const Segment& segment);
  // The call ran eagerly, and so will others like it: the user is told, once for each place.
  void tellEager(const Stop& why);

  Ref function_;
  Options options_;
  std::shared_ptr<Turns> turns_ = std::make_shared<Turns>();
  std::vector<Known> known_;  // the one that was used last first
  std::vector<Report> reports_;
  std::string lastFailure_;
  Found found_;  // room for what a check of guards finds
  bool isFoundLent_ = false;
  bool warned_ = false;
  std::set<Why> toldAround_;
  Usage usage_;
  uint64_t number_;
  size_t recorded_ = 0;     // counts what known_ has had
  bool postponed_ = false;  // a call ran eagerly that may have been the only one of its kind: it was not told
  static constexpr int kMostFailures = 3;
  int failedRecordings_ = 0;     // ended by an operator that failed
  bool tellsCompiling_ = false;  // see CompilingQuestion
  bool scalarsAreData_;          // see Recorder
  // Places of floats that have changed from call to call: inputs of the next recording. Where one has decided
  // something, they are compared.
  std::set<std::string> floats_, comparedFloats_;
};

std::set<Compiled*>& living();  // saker.reset() forgets what they recorded
size_t& recompileLimit();       // of the process: saker.set_recompile_limit()

// The Python type saker.Compiled.
PyTypeObject* compiledType();
PyObject* makeCompiled(PyObject* function, Options options);
bool isCompiled(PyObject* object);
Compiled* compiledOf(PyObject* object);  // nullptr: it is none

// Is this thread inside of a call of a compiled function, recorded or not?
bool insideCall();
// While one lives, it is.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

}  // namespace saker::frontend
