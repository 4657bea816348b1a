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
#include "frontend/input_names.h"
#include "frontend/locked.h"
#include "frontend/log.h"
#include "frontend/risk.h"
#include "frontend/stance.h"
#include "frontend/subjects/subjects.h"
#include "frontend/verify.h"
#include "frontend/wrapped.h"
#include "host/errors.h"
#include "host/foreign_results.h"
#include "host/objects.h"
#include "host/trace_host.h"
#include "ops/operator.h"
#include "runtime/failure.h"
#include "watch/checks.h"
#include "watch/loop.h"
#include "watch/traced.h"

namespace saker::frontend {

Counts& counts() {
  static Counts all;  // of the process: what saker.stats() tells
  return all;
}

namespace {

// Why gradients of what was recorded are not compiled, as far as the recording tells.
std::optional<Stop> whyInstead(const Segment& segment, const HostCalls& hosts, const tracing::Tape* tape,
                               const std::vector<at::Tensor>& inputs) {
  // What runs the user's code whenever it is called is not to run ahead of time.
  if (hosts.any || !hosts.repeatable) return Why::CallsUser;
  if (hosts.sets) return Why::SetsFlagsInside;
  if (!segment.draws.empty()) return Why::DrawsInputs;
  if (tape && !tape->unseenWrites().empty()) return Why::WritesThroughData;
  if (segment.hazards.inOrder) return Why::DependsOnOrder;
  return whyFollowed(*segment.program, inputs);
}

}  // namespace

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
  living().insert(this);
}

Compiled::~Compiled() { living().erase(this); }

namespace {

thread_local size_t depth = 0;

}  // namespace

bool insideCall() { return depth > 0; }
Inside::Inside() { ++depth; }
Inside::~Inside() { --depth; }

PyObject* Compiled::plain(PyObject* const* args, size_t nargsf, PyObject* names) {
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
  if (watch::watching() || tracing::currentTape() || tracing::current() || !watch::supported() || watch::traced()) {
    return plain(args, nargsf, names);
  }
  Stance stands = stance();
  if (stands == Stance::ForceEager) return plain(args, nargsf, names);
  Ambient now = Ambient::now();
  if (now.seesOperators()) {
    noteAround(now.whoSeesOperators());
    return plain(args, nargsf, names);
  }
  CallArguments call{args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), names};
  // The memory is used again, unless a call inside of the call has it.
  Found found = std::exchange(found_, {});
  struct GiveBack {
    Found &from, &to;
    ~GiveBack() { to = std::move(from); }
  } giveBack{found, found_};
  for (size_t i = 0; i < known_.size(); ++i) {
    std::shared_ptr<const Segment> segment = known_[i].segment;  // other threads may record while it runs
    bool eager = known_[i].eager.has_value();
    std::optional<Locked> locked;
    if (!eager && !segment->locks.empty()) locked.emplace(segment->locks);
    if (locked && !locked->all()) {
      locked.reset();
      return plain(args, nargsf, names);
    }
    Replay replayed(*segment, found);
    Turns::Alone alone;
    std::optional<Turns::Among> among;
    bool waits = !eager && segment->alone && !alone.tryEnter(turns_);
    // What other threads leave is what guards look at; but they are not waited for where the call goes another way.
    if (waits && !replayed.fits(now, call, /*guardsOnly=*/true)) {
      if (i == 0) lastFailure_ = replayed.failure(now);
      continue;
    }
    bool refused = waits && !alone.enter(turns_, /*patient=*/!locked);
    if (!eager && segment->writes && !segment->alone) among.emplace(turns_);
    std::optional<size_t> number = numberOf(*segment);  // others were here in the meantime
    if (refused || !number) {
      alone.leave();
      locked.reset();
      return plain(args, nargsf, names);
    }
    i = *number;
    replayed.setTurn(&alone);
    if (!replayed.fits(now, call, /*guardsOnly=*/eager)) {
      if (i == 0) lastFailure_ = replayed.failure(now);
      continue;
    }
    if (i > 0)
      std::rotate(known_.begin(), known_.begin() + static_cast<std::ptrdiff_t>(i),
                  known_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    if (eager) return plain(args, nargsf, names);
    ++counts().replays;
    if (logs(Topic::Replays)) log(Topic::Replays, Operations::name(function_.get()));
    if (options_.verify && !known_[0].verified && !locked && canVerify(*segment, function_.get())) {
      known_[0].verified = true;
      alone.leave();  // the program runs as well
      return runVerified(replayed, function_.get(), call);
    }
    return replay(replayed, call, locked ? &*locked : nullptr);
  }
  if (stands != Stance::Default && !known_.empty()) {
    if (stands == Stance::EagerOnRecompile) return plain(args, nargsf, names);
    PyErr_Format(PyExc_RuntimeError,
                 "%s would be recorded again, which torch.compiler.set_stance(\"fail_on_recompile\") forbids; this did "
                 "not hold: %s",
                 Operations::name(function_.get()).c_str(), lastFailure_.c_str());
    return nullptr;
  }
  if (known_.size() >= (options_.limit ? options_.limit : recompileLimit())) {
    if (!warnLimit()) return nullptr;
    return plain(args, nargsf, names);
  }
  if (PyObject* result = captureDynamic(now, call)) return result;
  if (PyErr_Occurred()) return nullptr;
  noteFloats(call);
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

PyObject* Compiled::captureDynamic(const Ambient& before, const CallArguments& call) {
  if (options_.dynamic == Options::Dynamic::Never) return nullptr;
  std::vector<StandIn> sizes = markedSizes(call);
  if (sizes.empty() && !checkMarks(call, allSizes(call), nullptr)) return nullptr;
  if (sizes.empty() && options_.dynamic == Options::Dynamic::Always) sizes = allSizes(call);
  std::vector<ChangedNumber> counters;
  for (size_t i = 0; sizes.empty() && counters.empty() && i < known_.size(); ++i) {
    if (known_[i].eager) continue;
    sizes = changedSizes(*known_[i].segment, call);
    counters = changedCounters(known_[i].segment->guards, call);
  }
  if (sizes.empty() && counters.empty()) return nullptr;
  std::optional<Stop> why;
  std::vector<at::Tensor> examples;
  Progress progress(Operations::name(function_.get()));
  std::shared_ptr<Segment> segment;
  for (bool again = true; again;) {  // an attempt changes nothing, and can be made once more
    CompilingQuestion question(tellsCompiling_);
    segment = frontend::captureDynamic(function_.get(), before, call, sizes, counters, examples, why);
    again = !segment && question.mayHelp();
    tellsCompiling_ |= again;
  }
  if (!checkMarks(call, sizes, segment.get())) return nullptr;
  if (!segment) {
    Report report;
    report.outcome = "static";
    report.why = why;
    note(report, Segment());
    return nullptr;
  }
  segment->memory = sharedMemory(examples);
  segment->counters = sharedCounters(examples, segment->memory);
  HostCalls hosts;
  hosts.any = segment->writes && !segment->alone;
  nameInputs(*segment->program, segment->guards, segment->inputs);
  // Its guards are complete when there is a backward, which may ask for more of the sizes.
  Made made = makeExecutor(segment->program, examples,
                           {options_.ahead, whyInstead(*segment, hosts, nullptr, examples), options_.backend});
  segment->code->set(std::move(made.run));
  segment->compiled = std::move(made.compiled);
  segment->relaxOffsets(made.exactOffsets);
  Found found;
  Replay first(*segment, found);
  if (!first.fits(before, call)) return nullptr;
  if (!known_.empty()) ++counts().recompiles;
  ++counts().graphs;
  counts().operators += segment->program->graph->liveNodes();
  counts().guards += segment->guards.size();
  Report report;
  report.outcome = "captured";
  report.changed = known_.empty() ? "" : lastFailure_;
  report.operators = segment->program->graph->liveNodes();
  report.guards = segment->guards.size();
  report.compiling = progress.seconds();
  report.instead = std::move(made.instead);
  report.stages = std::move(made.stages);
  note(report, *segment);
  segment->settle();
  known_.insert(known_.begin(), {segment, std::nullopt});
  Turns::Alone alone;
  std::optional<Turns::Among> among;
  if (segment->writes && !segment->alone) among.emplace(turns_);
  bool waits = segment->alone && !alone.tryEnter(turns_);
  if (waits && (!alone.enter(turns_, /*patient=*/true) || !first.fits(before, call))) {
    alone.leave();
    return plain(call.values, call.positional, call.names);
  }
  first.setTurn(&alone);
  return replay(first, call, nullptr, /*first=*/true);
}

PyObject* Compiled::replay(Replay& replay, const CallArguments& call, Locked* locked, bool first) {
  const Segment& segment = replay.segment();
  std::optional<Flags> flags;
  if (segment.sets) flags.emplace();
  HookHandles handles(segment.handles);
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
  Progress progress(Operations::name(function_.get()));
  CallArguments call{args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), names};
  auto segment = std::make_shared<Segment>();
  segment->ambient = before;
  WrappersScope wrappers;
  tracing::Host host = pythonHost();
  host.checkedTruth = &watch::checkedTruth;
  host.chooses = &watch::chooses;
  addWrappers(host);
  tracing::Tape tape(host);
  std::optional<FloatInputs> floats;
  if (!floats_.empty()) floats.emplace(floats_);
  // With floats as inputs it may stop because of these alone: no error, but a call that is not recorded.
  Recorder recorder(tape, function_.get(), call, /*raising=*/options_.fullgraph && !floats, {}, scalarsAreData_);
  tape.setAround([&](bool any) {
    return tracing::Tape::Around{noticesErrors(any), recorder.effects().size(),
                                 recorder.subjects().random.draws().size()};
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
  report.guards = recorder.guards().size();
  report.effects = recorder.effects().size();
  report.operators = tape.operators();
  if (why) segment->keepGuardsOnly();
  segment->guards = recorder.takeGuards();
  if (!why && segment->program && !report.exactOffsets.empty()) segment->relaxOffsets(report.exactOffsets);
  note(report, *segment);
  if (!result) return nullptr;  // a later call may not raise
  // Its code ran, and nobody saw it.
  if (recorder.frames() == 0 && PyFunction_Check(function_.get())) return result;
  if (why && floats && recorder.metScalars() && !report.internal) {
    comparedFloats_.merge(floats_);  // they decide something: from now on they are compared
    floats_.clear();
    return result;
  }
  // Most calls do not fail: the next one is recorded.
  if (why && tape.failed() && failedRecordings_++ < kMostFailures) return result;
  if (recorder.stopped() && question.mayHelp()) {
    tellsCompiling_ = true;
    return result;
  }
  if (why && options_.fullgraph && !report.internal) {
    Py_DECREF(result);
    raiseStop(*why);
    return nullptr;
  }
  if (recorder.stopped() && recorder.metScalars()) {
    scalarsAreData_ = false;  // the same
    return result;
  }
  counts().guards += segment->guards.size();
  segment->settle();
  known_.insert(known_.begin(), {std::move(segment), why});
  return result;
}

// Whatever goes wrong in compiling, the call has its result. The back end is the user's: its errors are raised, and so
// are interruptions.
std::optional<Stop> Compiled::finishSafely(Segment& segment, Recorder& recorder, tracing::Tape& tape, PyObject* result,
                                           Report& report) {
  Ref given = Ref::steal(result);  // where this throws, nobody gets it
  try {
    std::optional<Stop> why = finish(segment, recorder, tape, result, report);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) throwPythonError();
    if (PyErr_Occurred()) PyErr_Clear();
    given.release();
    return why;
  } catch (const std::exception& error) {
    if (options_.backend) throw;
    std::string text = error.what();
    clearPythonError();
    if (PyErr_Occurred()) PyErr_Clear();
    given.release();
    report.internal = true;
    segment.code->clear();
    tellInternalFailure(text, Operations::name(function_.get()));
    return Stop(Why::Internal, text);
  }
}

std::optional<Stop> Compiled::finish(Segment& segment, Recorder& recorder, tracing::Tape& tape, PyObject* result,
                                     Report& report) {
  failIfAsked();
  Cookbook book(recorder, [&](const at::Tensor& tensor) { return tape.made(tensor); });
  std::optional<uint32_t> returned = book.write(result);
  if (!returned) return book.refusal();
  segment.exit.result = *returned;
  if (!segment.addEffects(recorder, book)) return book.refusal();
  segment.draws = recorder.subjects().random.draws();
  if (!segment.draws.empty() && Aside::current() && Aside::current()->drew()) {
    return Why::DrawsTwice;
  }
  segment.handles = recorder.subjects().hooks.handleCount();
  size_t operators = tape.operators();
  std::vector<at::Tensor> inputs;
  std::unique_ptr<runtime::Program> program = tape.finish(book.outputs);
  if (tape.spoiled()) return *tape.spoiled();
  for (const tracing::Tape::Input& input : tape.inputs()) {
    if (input.literal) continue;
    uint32_t place = recorder.placeOfTensor(input.tensor);
    if (place == kInside) return Why::UnknownTensor;
    segment.inputs.push_back(place);
    inputs.push_back(input.tensor);
  }
  segment.recipes = std::move(book.recipes);
  if (operators == 0 && book.outputs.empty()) return std::nullopt;
  segment.program = std::move(program);
  nameInputs(*segment.program, recorder.guards(), segment.inputs);
  for (uint32_t writes : segment.program->argumentWrites) segment.writes |= writes != 0;
  for (const at::Tensor& written : tape.unseenWrites()) {
    bool isInput = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].is_same(written)) continue;
      isInput = true;
      uint32_t moves = 0;  // by what is written through others as well
      for (size_t k = 0; k < inputs.size(); ++k) {
        if (k == i || aten::sharesVersion(inputs[k], inputs[i])) {
          moves = std::max(moves, segment.program->argumentWrites[k]);
        }
      }
      segment.unseen.emplace_back(i, moves);
    }
    // A back end counts all writes. For an input that is put right after the run.
    if (!isInput && options_.backend) return Why::HiddenWrite;
    segment.writes = true;
  }
  HostCalls hosts = hostCallsOf(segment.program->objects);
  const Stop unsafe(Why::MayFail, tape.risk().op);
  if (!segment.takeRisk(tape.risk(), hosts.repeatable)) return unsafe;
  // Where such a call fails after a write, eager mode leaves an iterator in the middle.
  bool leaves = tape.risk().any && (segment.hazards.firstDone || segment.hazards.unknown);
  if (recorder.subjects().iterators.any() && leaves) return unsafe;
  segment.sets = hosts.sets;
  bool callsUser = hosts.any || !hosts.repeatable || callsUserOperators(*segment.program->graph);
  segment.alone = segment.writes && !callsUser;
  if (hosts.any && !segment.locks.empty()) return Why::LockedUserCode;
  segment.memory = sharedMemory(inputs);
  segment.counters = sharedCounters(inputs, segment.memory);
  bool changed = false;
  std::vector<PyObject*> objects = recorder.provenance().objects();
  for (const Instruction& at : recorder.guards().instructions) {
    if (at.op != Op::Tensor) continue;
    const at::Tensor& tensor = tensorOf(objects[at.place]);
    changed |= !recorder.guards().tensors[static_cast<size_t>(at.number)].fits(tensor);
  }
  ExecutorOptions options{options_.ahead, whyInstead(segment, hosts, &tape, inputs), options_.backend, hosts.wraps,
                          segment.hazards.mustUndo};
  segment.hazards.foreign = bool(options_.backend);
  if (changed && segment.hazards.mustUndo) return unsafe;
  if (changed) {
    segment.code->setLate([options, program = segment.program](const std::vector<at::Tensor>& given) {
      return makeExecutor(program, given, options).run;
    });
  } else {
    Made made = makeExecutor(segment.program, inputs, options);
    if (!made.run) return unsafe;
    segment.code->set(std::move(made.run));
    segment.compiled = std::move(made.compiled);
    report.instead = std::move(made.instead);
    report.stages = std::move(made.stages);
    report.exactOffsets = std::move(made.exactOffsets);
  }
  ++counts().graphs;
  counts().operators += operators;
  return std::nullopt;
}

}  // namespace saker::frontend
