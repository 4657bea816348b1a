// What was recorded becomes a segment that can be replayed: by the watched call itself, or by one with symbolic sizes.
#include <algorithm>

#include "aten/version_counter.h"
#include "capture/tape.h"
#include "frontend/allowed.h"
#include "frontend/aside.h"
#include "frontend/changed_numbers.h"
#include "frontend/compiled.h"
#include "frontend/compiling_question.h"
#include "frontend/dynamic.h"
#include "frontend/execute.h"
#include "frontend/followed.h"
#include "frontend/input_names.h"
#include "frontend/log.h"
#include "frontend/risk.h"
#include "frontend/subjects/subjects.h"
#include "frontend/user_names.h"
#include "host/errors.h"
#include "host/objects.h"
#include "host/subclass_form.h"

namespace saker::frontend {

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

PyObject* Compiled::captureDynamic(const Ambient& before, const CallArguments& call) {
  if (options_.dynamic == Options::Dynamic::Never) return nullptr;
  std::vector<StandIn> sizes = markedSizes(call);
  if (sizes.empty() && !checkMarks(call, allSizes(call), nullptr)) return nullptr;
  if (sizes.empty() && options_.dynamic == Options::Dynamic::Always) sizes = allSizes(call);
  std::vector<ChangedNumber> held;
  const Guards* guards = nullptr;
  for (size_t i = 0; sizes.empty() && held.empty() && i < known_.size(); ++i) {
    if (known_[i].eager) continue;
    guards = &known_[i].segment->guards;
    sizes = changedSizes(*known_[i].segment, call);
    held = changedCounters(*guards, call);
  }
  if (sizes.empty() && held.empty()) return nullptr;
  if (guards && !floats_.empty()) {  // numbers like those
    for (StandIn& each : floatStandIns(*guards, call, floats_)) sizes.push_back(std::move(each));
    for (ChangedNumber& each : floatsAt(*guards, call, floats_)) held.push_back(std::move(each));
  }
  std::optional<Stop> why;
  std::vector<at::Tensor> examples;
  Progress progress(functionName(function_.get()));
  std::shared_ptr<Segment> segment;
  const std::vector<StandIn> asked = sizes;
  for (bool again = true; again;) {  // an attempt changes nothing, and can be made once more
    CompilingQuestion question(tellsCompiling_);
    sizes = asked;
    segment = frontend::captureDynamic(function_.get(), before, call, sizes, held, examples, why);
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
  segment->program->native = options_.native;
  // Its guards are complete when there is a backward, which may ask for more of the sizes.
  ExecutorOptions options{options_.ahead, whyInstead(*segment, hosts, nullptr, examples), options_.backend};
  options.undone = segment->hazards.mustUndo;
  Made made = makeExecutor(segment->program, examples, options);
  if (!made.run) {
    Report report;
    report.outcome = "static";
    report.why = Why::MayFailAfterWrite;
    note(report, Segment());
    return nullptr;
  }
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
  if (usage_.recordings++ == 0) usage_.first = report.compiling;
  segment->settle();
  keep({segment, std::nullopt});
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
    tellInternalFailure(text, functionName(function_.get()));
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
  tracing::Tape::Risk risk = tape.risk();
  if (callsAllowed(segment.program->objects)) risk.any = risk.sizes = true;  // what they give may have any size
  if (!segment.takeRisk(risk, hosts.repeatable)) return unsafe;
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
  for (const GuardInstruction& at : recorder.guards().instructions) {
    if (at.op != GuardOp::Tensor) continue;
    const at::Tensor& tensor = tensorOf(objects[at.place]);
    changed |= !recorder.guards().tensors[static_cast<size_t>(at.number)].fits(tensor);
  }
  segment.program->native = options_.native;
  ExecutorOptions options{options_.ahead,           whyInstead(segment, hosts, &tape, inputs),
                          options_.backend,         hosts.wraps,
                          segment.hazards.mustUndo, tape.usesNumbers()};
  if (hosts.onlyFunctions && hosts.wraps && !hosts.any && !options.numbers) {
    HostCalls opened = hosts;
    opened.repeatable = true;
    options.functions = !whyInstead(segment, opened, &tape, inputs);
    if (options.functions) options.instead = Why::AwaitsBackward;
  }
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
    if (std::none_of(inputs.begin(), inputs.end(), isWrapper)) segment.shorten();
  }
  ++counts().graphs;
  counts().operators += operators;
  return std::nullopt;
}

}  // namespace saker::frontend
