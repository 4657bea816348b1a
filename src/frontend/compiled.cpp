#include "frontend/compiled.h"

#include <algorithm>
#include <set>

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

PyObject* Compiled::plain(PyObject* const* args, size_t nargsf, PyObject* names) {
  return PyObject_Vectorcall(function_.get(), args, nargsf, names);
}

PyObject* Compiled::call(PyObject* const* args, size_t nargsf, PyObject* names) {
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
  std::vector<PyObject*> found = std::exchange(found_, {});
  struct GiveBack {
    std::vector<PyObject*>&from, &to;
    ~GiveBack() { to = std::move(from); }
  } giveBack{found, found_};
  for (size_t i = 0; i < versions_.size(); ++i) {
    std::optional<Locked> locked;
    if (!versions_[i]->locks.empty()) locked.emplace(versions_[i]->locks);
    if (locked && !locked->all()) {
      locked.reset();
      return plain(args, nargsf, names);
    }
    if (!versions_[i]->fits(now, call, found)) {
      if (i == 0)
        lastFailure_ =
            versions_[i]->ambient == now ? versions_[i]->guards.failure() : versions_[i]->ambient.difference(now);
      continue;
    }
    if (i > 0)
      std::rotate(versions_.begin(), versions_.begin() + static_cast<std::ptrdiff_t>(i),
                  versions_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    std::shared_ptr<Version> version = versions_[0];  // other threads may record while it runs
    struct LetGo {
      Guards& guards;
      ~LetGo() { guards.letGo(); }
    } letGo{version->guards};
    if (version->eager) return plain(args, nargsf, names);
    ++counts().replays;
    if (logs(Topic::Replays)) log(Topic::Replays, Operations::name(function_.get()));
    if (options_.verify && !version->verified && !locked && canVerify(*version, function_.get())) {
      version->verified = true;
      return runVerified(*version, found, function_.get(), call);
    }
    return replay(*version, found, call, locked ? &*locked : nullptr);
  }
  if (stands != Stance::Default && !versions_.empty()) {
    if (stands == Stance::EagerOnRecompile) return plain(args, nargsf, names);
    PyErr_Format(PyExc_RuntimeError,
                 "%s would be recorded again, which torch.compiler.set_stance(\"fail_on_recompile\") forbids; this did "
                 "not hold: %s",
                 Operations::name(function_.get()).c_str(), lastFailure_.c_str());
    return nullptr;
  }
  if (versions_.size() >= (options_.limit ? options_.limit : recompileLimit())) {
    if (!warnLimit()) return nullptr;
    return plain(args, nargsf, names);
  }
  if (PyObject* result = captureDynamic(now, call)) return result;
  if (PyErr_Occurred()) return nullptr;
  noteFloats(call);
  return capture(now, args, nargsf, names);
}

void Compiled::noteFloats(const CallArguments& call) {
  for (const std::shared_ptr<Version>& version : versions_) {
    if (version->eager) continue;
    for (const ChangedNumber& each : changedFloats(version->guards, call)) {
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
  for (size_t i = 0; sizes.empty() && counters.empty() && i < versions_.size(); ++i) {
    sizes = changedSizes(*versions_[i], call);
    if (!versions_[i]->eager) counters = changedCounters(versions_[i]->guards, call);
  }
  if (sizes.empty() && counters.empty()) return nullptr;
  std::optional<Stop> why;
  Progress progress(Operations::name(function_.get()));
  std::shared_ptr<Version> version;
  for (bool again = true; again;) {  // an attempt changes nothing, and can be made once more
    CompilingQuestion question(tellsCompiling_);
    version = frontend::captureDynamic(function_.get(), before, call, sizes, counters, why);
    again = !version && question.mayHelp();
    tellsCompiling_ |= again;
  }
  if (!checkMarks(call, sizes, version.get())) return nullptr;
  if (!version) {
    Report report;
    report.outcome = "static";
    report.why = why;
    note(report, Version());
    return nullptr;
  }
  std::vector<PyObject*> found;
  if (!version->fits(before, call, found)) return nullptr;
  std::vector<at::Tensor> examples;
  for (uint32_t place : version->inputs) examples.push_back(tensorAt(found[place]));
  version->memory = sharedMemory(examples);
  if (options_.backend) {
    version->executor = makeExecutor(version->program, examples, {false, options_.backend});
  }
  if (!versions_.empty()) ++counts().recompiles;
  ++counts().graphs;
  counts().operators += version->program->graph->liveNodes();
  counts().guards += version->guards.size();
  Report report;
  report.outcome = "captured";
  report.changed = versions_.empty() ? "" : lastFailure_;
  report.operators = version->program->graph->liveNodes();
  report.guards = version->guards.size();
  report.compiling = progress.seconds();
  note(report, *version);
  version->settle();
  versions_.insert(versions_.begin(), version);
  ++counts().replays;
  PyObject* result = replay(*version, found, call);
  if (result) --counts().replays;  // the first call is none
  return result;
}

PyObject* Compiled::replay(Version& version, const std::vector<PyObject*>& found, const CallArguments& call,
                           Locked* locked) {
  std::optional<Flags> flags;
  if (version.sets) flags.emplace();
  HookHandles handles(version.handles);
  at::Tensor generator = version.generatorBefore();
  if (PyObject* result = version.run(found)) return result;
  if (flags) flags->restore();
  if (!std::exchange(version.inGraph, false) || raisedBackendError()) return nullptr;
  // What no operator raises because of data is an interruption, or the back end's own error.
  if (!PyErr_ExceptionMatches(PyExc_Exception) || (version.foreign && !version.risky)) return nullptr;
  if (!version.takeBack(generator)) {
    version.doEffectsBefore(found);
    version.drawOnlyBefore(found);
    return nullptr;
  }
  // An operator failed on what these tensors hold, or gave another size. The program may catch that, and has done other
  // things before: it runs itself.
  PyErr_Clear();
  if (counts().replays > 0) --counts().replays;
  if (runtime::lastFailure().sizes) noteSizes(version);
  if (locked) locked->release();
  return plain(call.values, call.positional, call.names);
}

void Compiled::noteAround(Why why) {
  if (!toldAround_.insert(why).second) return;
  Report report;
  report.outcome = "eager";
  report.why = why;
  note(report, Version());
}

// Sizes have changed that depend on data. They will again: recording them is of no use.
void Compiled::noteSizes(Version& version) {
  Report report;
  report.outcome = "eager";
  report.why = version.eager = Why::SizeChanged;
  version.draws.clear();  // the program draws itself
  version.writes = version.dynamic = false;
  ++counts().breaks;
  note(report, version);
}

// With fullgraph=True it raises.
bool Compiled::warnLimit() {
  size_t limit = options_.limit ? options_.limit : recompileLimit();
  std::string name = Operations::name(function_.get()),
              times = std::to_string(limit) + (limit == 1 ? " time" : " times");
  std::string text = name + " was recorded " + times;
  std::string hint = "what kept changing: " + lastFailure_ + "; recompile_limit=" + std::to_string(limit) +
                     " of saker.compile, or saker.set_recompile_limit(), sets the limit";
  if (options_.fullgraph) {
    setCaptureError("Unsupported", text + ", and fullgraph=True lets no other call run eagerly; " + hint);
    return false;
  }
  if (warned_) return true;
  warned_ = true;
  text = "saker: " + text + " and runs eagerly for other arguments from now on; " + hint;
  return PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) == 0;
}

PyObject* Compiled::capture(const Ambient& before, PyObject* const* args, size_t nargsf, PyObject* names) {
  if (!versions_.empty()) ++counts().recompiles;
  Report report;
  report.changed = versions_.empty() ? "" : lastFailure_;
  Progress progress(Operations::name(function_.get()));
  CallArguments call{args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), names};
  auto version = std::make_shared<Version>();
  version->ambient = before;
  WrappersScope wrappers;
  tracing::Host host = pythonHost();
  host.checkedTruth = &watch::checkedTruth;
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
    why = finishSafely(*version, recorder, tape, result, report);
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
  version->eager = why;
  if (why) {  // the program takes its locks and draws its numbers itself
    version->locks.clear();
    version->draws.clear();
    version->writes = version->dynamic = false;
  }
  version->guards = recorder.takeGuards();
  note(report, *version);
  if (!result) return nullptr;  // a later call may not raise
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
  counts().guards += version->guards.size();
  version->settle();
  versions_.insert(versions_.begin(), std::move(version));
  return result;
}

// Whatever goes wrong in compiling, the call has its result. The back end is the user's: its errors are raised.
std::optional<Stop> Compiled::finishSafely(Version& version, Recorder& recorder, tracing::Tape& tape, PyObject* result,
                                           Report& report) {
  try {
    std::optional<Stop> why = finish(version, recorder, tape, result);
    if (PyErr_Occurred()) PyErr_Clear();
    return why;
  } catch (const std::exception& error) {
    if (options_.backend) {
      Py_DECREF(result);
      throw;
    }
    if (PyErr_Occurred()) PyErr_Clear();
    report.internal = true;
    version.executor = nullptr;
    version.late = nullptr;
    tellInternalFailure(error.what(), Operations::name(function_.get()));
    return Stop(Why::Internal, error.what());
  }
}

std::optional<Stop> Compiled::finish(Version& version, Recorder& recorder, tracing::Tape& tape, PyObject* result) {
  failIfAsked();
  Cookbook book(recorder, [&](const at::Tensor& tensor) { return tape.made(tensor); });
  std::optional<uint32_t> returned = book.write(result);
  if (!returned) return book.refusal();
  version.result = *returned;
  if (!version.addEffects(recorder, book)) return book.refusal();
  version.draws = recorder.subjects().random.draws();
  if (!version.draws.empty() && Aside::current() && Aside::current()->drew()) {
    return Why::DrawsTwice;
  }
  version.handles = recorder.subjects().hooks.handleCount();
  size_t operators = tape.operators();
  std::vector<at::Tensor> inputs;
  std::unique_ptr<runtime::Program> program = tape.finish(book.outputs);
  if (tape.spoiled()) return *tape.spoiled();
  for (const tracing::Tape::Input& input : tape.inputs()) {
    if (input.literal) continue;
    uint32_t place = recorder.placeOfTensor(input.tensor);
    if (place == kInside) return Why::UnknownTensor;
    version.inputs.push_back(place);
    inputs.push_back(input.tensor);
  }
  version.recipes = std::move(book.recipes);
  if (operators == 0 && book.outputs.empty()) return std::nullopt;
  version.program = std::move(program);
  for (uint32_t writes : version.program->argumentWrites) version.writes |= writes != 0;
  for (const at::Tensor& written : tape.unseenWrites()) {
    bool isInput = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].is_same(written)) continue;
      isInput = true;
      version.unseen.emplace_back(i, version.program->argumentWrites[i]);
    }
    // A back end counts all writes. For an input that is put right after the run.
    if (!isInput && options_.backend) return Why::HiddenWrite;
    version.writes = true;
  }
  HostCalls hosts = hostCallsOf(version.program->objects);
  const Stop unsafe(Why::MayFail, tape.risk().op);
  if (!version.takeRisk(tape.risk(), hosts.repeatable)) return unsafe;
  // Where such a call fails after a write, eager mode leaves an iterator in the middle.
  bool leaves = tape.risk().any && (version.firstDone || version.unknown);
  if (recorder.subjects().iterators.any() && leaves) return unsafe;
  version.sets = hosts.sets;
  version.alone = version.writes && !hosts.any;
  if (hosts.any && !version.locks.empty()) return Why::LockedUserCode;
  version.memory = sharedMemory(inputs);
  bool changed = false;
  std::vector<PyObject*> objects = recorder.provenance().objects();
  for (const Instruction& at : recorder.guards().instructions) {
    if (at.op != Op::Tensor) continue;
    const at::Tensor& tensor = tensorOf(objects[at.place]);
    changed |= !recorder.guards().tensors[static_cast<size_t>(at.number)].fits(tensor);
  }
  // What runs the user's code whenever it is called is not to run ahead of time.
  bool ahead = options_.ahead && !hosts.any && !hosts.sets && hosts.repeatable && version.draws.empty() &&
               tape.unseenWrites().empty() && version.program->inferenceModes.empty() && !version.inOrder &&
               !mustBeFollowed(*version.program, inputs);
  ExecutorOptions options{ahead, options_.backend, hosts.wraps, version.mustUndo};
  version.foreign = bool(options_.backend);
  if (changed && version.mustUndo) return unsafe;
  if (changed) {
    version.late = [options, program = version.program](const std::vector<at::Tensor>& given) {
      return makeExecutor(program, given, options);
    };
  } else {
    version.executor = makeExecutor(version.program, inputs, options);
    if (!version.executor) return unsafe;
  }
  ++counts().graphs;
  counts().operators += operators;
  return std::nullopt;
}

}  // namespace saker::frontend
