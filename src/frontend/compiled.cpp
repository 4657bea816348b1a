#include "frontend/compiled.h"

#include <algorithm>
#include <set>

#include "aten/version_counter.h"
#include "capture/tape.h"
#include "capture/trace.h"
#include "frontend/aside.h"
#include "frontend/changed_numbers.h"
#include "frontend/compiling_question.h"
#include "frontend/dynamic.h"
#include "frontend/execute.h"
#include "frontend/float_inputs.h"
#include "frontend/followed.h"
#include "frontend/hook_handles.h"
#include "frontend/locked.h"
#include "frontend/log.h"
#include "frontend/risk.h"
#include "frontend/stance.h"
#include "frontend/subjects/subjects.h"
#include "frontend/user_names.h"
#include "frontend/verify.h"
#include "frontend/wrapped.h"
#include "host/errors.h"
#include "host/foreign_results.h"
#include "host/objects.h"
#include "ops/operator.h"
#include "runtime/failure.h"
#include "watch/loop.h"
#include "watch/traced.h"

namespace saker::frontend {

Counts& counts() {
  static Counts all;  // of the process: what saker.stats() tells
  return all;
}

size_t& recompileLimit() {
  static size_t limit = 8;  // of the process: saker.set_recompile_limit()
  return limit;
}

std::set<Compiled*>& living() {
  static std::set<Compiled*>& all = *new std::set<Compiled*>;  // saker.reset() forgets what they recorded
  return all;
}

Compiled::Compiled(PyObject* function, Options options)
    : function_(Ref::borrow(function)), options_(std::move(options)), scalarsAreData_(!options_.fullgraph) {
  static uint64_t made = 0;  // counts the compiled functions of the process
  number_ = ++made;
  living().insert(this);
}

Compiled::~Compiled() {
  living().erase(this);
  keepUsage(std::move(usage_));
}

namespace {

thread_local size_t depth = 0;

}  // namespace

bool insideCall() { return depth > 0; }
Inside::Inside() { ++depth; }
Inside::~Inside() { --depth; }

PyObject* Compiled::plain(PyObject* const* args, size_t nargsf, PyObject* names, std::optional<Why> why, Times* times) {
  if (why) ++usage_.eagerCalls[*why];
  const Stopwatch time(usage_.eager++, times ? *times : usage_.ran);
  Turns::Among running(turns_);
  return PyObject_Vectorcall(function_.get(), args, nargsf, names);
}

std::optional<size_t> Compiled::numberOf(const Segment& segment) const {
  for (size_t i = 0; i < known_.size(); ++i) {
    if (known_[i].segment.get() == &segment) return i;
  }
  return std::nullopt;
}

PyObject* Compiled::call(PyObject* const* args, size_t nargsf, PyObject* names) {
  Inside inside;
  // Inside of another recording, the call is part of it.
  if (watch::watching() || tracing::currentTape() || tracing::current()) {
    Turns::Among running(turns_);
    return PyObject_Vectorcall(function_.get(), args, nargsf, names);
  }
  if (!watch::supported() || watch::traced()) {
    Why why = watch::supported() ? Why::Traced : Why::PythonVersion;
    noteAround(why);
    return plain(args, nargsf, names, why);
  }
  Stance stands = stance();
  if (stands == Stance::ForceEager) return plain(args, nargsf, names, {}, &usage_.forced);
  Ambient now = Ambient::now();
  if (now.seesOperators()) {
    noteAround(now.whoSeesOperators());
    return plain(args, nargsf, names, now.whoSeesOperators());
  }
  Stopwatch time(usage_.replays, usage_.replayed);
  CallArguments call{args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), names};
  // The memory is used again, unless a call inside of the call, or of another thread, has it.
  Found fresh;
  struct Lend {
    bool& lent;
    const bool took = !std::exchange(lent, true);
    ~Lend() {
      if (took) lent = false;
    }
  } lend{isFoundLent_};
  Found& found = lend.took ? found_ : fresh;
  std::string otherwise;
  for (size_t i = 0; i < known_.size(); ++i) {
    std::shared_ptr<const Segment> segment = known_[i].segment;  // other threads may record while it runs
    bool eager = known_[i].eager.has_value();
    std::optional<Locked> locked;
    if (!eager && !segment->locks.empty()) locked.emplace(segment->locks);
    if (locked && !locked->all()) {
      locked.reset();
      time.drop();
      return plain(args, nargsf, names);
    }
    Replay replayed(*segment, found);
    Turns::Alone alone;
    std::optional<Turns::Among> among;
    bool waits = !eager && segment->alone && !alone.tryEnter(turns_);
    // What other threads leave is what guards look at; but they are not waited for where the call goes another way.
    if (waits && !replayed.fits(now, call, /*guardsOnly=*/true)) {
      if (!found.why.empty()) otherwise = found.why;
      continue;
    }
    bool refused = waits && !alone.enter(turns_, /*patient=*/!locked);
    if (!eager && segment->writes && !segment->alone) among.emplace(turns_);
    std::optional<size_t> number = numberOf(*segment);  // others were here in the meantime
    if (refused || !number) {
      alone.leave();
      locked.reset();
      time.drop();
      return plain(args, nargsf, names);
    }
    i = *number;
    replayed.setTurn(&alone);
    if (!replayed.fits(now, call, /*guardsOnly=*/eager)) {
      if (!found.why.empty()) otherwise = found.why;
      continue;
    }
    if (!segment->asked.empty()) {  // code of the user's may have run
      number = numberOf(*segment);
      if (!number) {
        time.drop();
        return plain(args, nargsf, names);
      }
      i = *number;
    }
    if (i > 0)
      std::rotate(known_.begin(), known_.begin() + static_cast<std::ptrdiff_t>(i),
                  known_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    if (eager) {
      time.drop();
      return plain(args, nargsf, names, known_[0].eager->why);
    }
    ++counts().replays;
    ++usage_.replays;
    if (logs(Topic::Replays)) log(Topic::Replays, functionName(function_.get()));
    if (options_.verify && !known_[0].verified && !locked && canVerify(*segment, function_.get())) {
      known_[0].verified = true;
      alone.leave();  // the program runs as well
      return runVerified(replayed, function_.get(), call);
    }
    return replay(replayed, call, locked ? &*locked : nullptr);
  }
  time.drop();
  bool isFull = known_.size() >= (options_.limit ? options_.limit : recompileLimit());
  bool isTold = isFull && warned_ && !options_.fullgraph;  // and is not worth another comparison
  if (!isTold && stands != Stance::EagerOnRecompile) noteChange(now, call, otherwise);
  if (stands != Stance::Default && !known_.empty()) {
    if (stands == Stance::EagerOnRecompile) return plain(args, nargsf, names);
    PyErr_Format(PyExc_RuntimeError,
                 "%s would be recorded again, which torch.compiler.set_stance(\"fail_on_recompile\") forbids; this did "
                 "not hold: %s",
                 functionName(function_.get()).c_str(), lastFailure_.c_str());
    return nullptr;
  }
  if (isFull) {
    if (!warnLimit()) return nullptr;
    return plain(args, nargsf, names, Why::RecompileLimit);
  }
  noteFloats(call);
  if (PyObject* result = captureDynamic(now, call)) return result;
  if (PyErr_Occurred()) return nullptr;
  return capture(now, args, nargsf, names);
}

void Compiled::noteFloats(const CallArguments& call) {
  for (const Known& known : known_) {
    if (known.eager) continue;
    for (const ChangedNumber& each : changedFloats(known.segment->guards, call)) {
      if (!comparedFloats_.contains(each.place)) floats_.insert(each.place);
    }
  }
}

PyObject* Compiled::replay(Replay& replay, const CallArguments& call, Locked* locked, bool first) {
  const Segment& segment = replay.segment();
  std::optional<Flags> flags;
  if (segment.sets) flags.emplace();
  std::optional<HookHandles> handles;
  if (segment.handles > 0) handles.emplace(segment.handles);
  at::Tensor generator = replay.generatorBefore();
  if (PyObject* result = replay.run()) return result;
  if (flags) flags->restore();
  if (!replay.failedInGraph() || raisedBackendError()) return nullptr;
  // What no operator raises because of data is an interruption, or the back end's own error.
  const Hazards& hazards = segment.hazards;
  if (!PyErr_ExceptionMatches(PyExc_Exception) || (hazards.foreign && !hazards.risky)) return nullptr;
  if (!replay.takeBack(generator)) {
    replay.doEffectsBefore();
    replay.drawOnlyBefore();
    return nullptr;
  }
  // An operator failed on what these tensors hold, or gave another size. The program may catch that, and has done other
  // things before: it runs itself.
  PyErr_Clear();
  if (!first && counts().replays > 0) --counts().replays;
  if (!first && usage_.replays > 0) --usage_.replays;
  // Sizes have changed that depend on data. They will again: recording them is of no use.
  if (runtime::lastFailure().sizes) noteEager(segment, Why::SizeChanged);
  if (locked) locked->release();
  bool sizes = runtime::lastFailure().sizes;
  PyObject* result = plain(call.values, call.positional, call.names);
  // Data has chosen another object than before. It will again.
  if (result && hazards.chooses && !sizes) noteEager(segment, Why::ChoiceChanged);
  return result;
}

PyObject* Compiled::capture(const Ambient& before, PyObject* const* args, size_t nargsf, PyObject* names) {
  if (!known_.empty()) ++counts().recompiles;
  Report report;
  report.changed = known_.empty() ? "" : lastFailure_;
  Progress progress(functionName(function_.get()));
  CallArguments call{args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), names};
  auto segment = std::make_shared<Segment>();
  segment->ambient = before;
  WrappersScope wrappers;
  tracing::Tape tape(watchedHost());
  std::optional<FloatInputs> floats;
  if (!floats_.empty()) floats.emplace(floats_);
  // With floats as inputs it may stop because of these alone: no error, but a call that is not recorded.
  Recorder recorder(tape, function_.get(), call, /*raising=*/options_.fullgraph && !floats, {}, scalarsAreData_);
  tape.setAround([&](bool any) {
    return tracing::Tape::Around{noticesErrors(any), recorder.effects().size(),
                                 recorder.subjects().random.draws().size(), recorder.effectsOutside(),
                                 recorder.frames()};
  });
  CompilingQuestion question(tellsCompiling_);
  Aside aside;
  PyObject* result = nullptr;
  {
    Turns::Among running(turns_);
    tracing::TapeScope scope(&tape);
    result = watch::run(recorder, function_.get(), args, nargsf, names);
  }
  wrappers.leave();
  counts().frames += recorder.frames();
  report.frames = recorder.frames();
  report.watching = progress.seconds();
  if (!recorder.stopped() && tape.spoiled()) recorder.stop(*tape.spoiled(), /*quiet=*/true);
  std::optional<Stop> why;
  if (recorder.stopped()) {
    why = recorder.stopped();
    ++counts().breaks;
  } else if (!result) {
    why = Why::Raised;
  } else if (!(Ambient::now() == before) && !recorder.subjects().flags.leavesGradMode(before)) {
    why = Stop(Why::LeavesAmbient, Ambient::now().difference(before));
  } else if (recorder.subjects().world.holdsLocks()) {
    why = Why::LeavesLock;
  } else if (recorder.subjects().world.changesPrinted()) {
    why = Why::PrintsObject;
  } else if (!recorder.balanced()) {
    why = Why::LeavesContextVariable;
  } else if (why = recorder.seal(); !why) {
    progress.phase("compiling");
    why = finishSafely(*segment, recorder, tape, result, report);
    report.compiling = progress.seconds() - report.watching;
    Progress::tick();
  }
  report.outcome = !why ? "captured" : "eager";
  if (why && why->file.empty() && tape.spoiledAt()) {
    why->file = tape.spoiledAt()->file;
    why->line = tape.spoiledAt()->line;
  }
  report.why = why;
  bool metFloats = why && floats && recorder.metScalars() && !report.internal;
  bool failed = why && tape.failed() && failedRecordings_ < kMostFailures;
  bool otherAnswer = recorder.stopped() && question.mayHelp();
  bool metScalars = recorder.stopped() && recorder.metScalars();
  report.again = metFloats || failed || otherAnswer || (metScalars && !options_.fullgraph);
  report.guards = recorder.guards().size();
  report.effects = recorder.effects().size();
  report.operators = tape.operators();
  if (why) segment->keepGuardsOnly();
  segment->guards = recorder.takeGuards();
  if (!why && segment->program && !report.exactOffsets.empty()) segment->relaxOffsets(report.exactOffsets);
  note(report, *segment);
  if (usage_.recordings == 0) usage_.first = report.watching + report.compiling;
  ++(why ? usage_.eager : usage_.recordings);
  if (!result) return nullptr;  // a later call may not raise
  // Its code ran, and nobody saw it.
  if (recorder.frames() == 0 && PyFunction_Check(function_.get())) return result;
  if (metFloats) {
    comparedFloats_.merge(floats_);  // they decide something: from now on they are compared
    floats_.clear();
    return result;
  }
  // Most calls do not fail: the next one is recorded.
  failedRecordings_ += why && tape.failed();
  if (failed) return result;
  if (otherAnswer) {
    tellsCompiling_ = true;
    return result;
  }
  if (why && options_.fullgraph && !report.internal) {
    Py_DECREF(result);
    raiseStop(*why);
    return nullptr;
  }
  if (metScalars) {
    scalarsAreData_ = false;  // the same
    return result;
  }
  if (why) {
    ++usage_.eagerCalls[why->why];
  }
  counts().guards += segment->guards.size();
  segment->settle();
  // The first step of an optimizer makes its state, and no other call finds it without.
  Found room;
  bool onlyOne = why && !postponed_ && !Replay(*segment, room).fits(Ambient::now(), call, /*guardsOnly=*/true);
  postponed_ |= onlyOne;
  if (why && !onlyOne) tellEager(*why);
  keep({std::move(segment), why});
  return result;
}

}  // namespace saker::frontend
