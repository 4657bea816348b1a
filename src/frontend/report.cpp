// What compiled functions report: to saker.explain, to the logs, and when something of Saker's own goes wrong.
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "frontend/compiled.h"
#include "frontend/differences.h"
#include "frontend/log.h"
#include "frontend/notices.h"
#include "frontend/size_differences.h"
#include "frontend/user_names.h"
#include "host/errors.h"
#include "host/kept_error.h"
#include "ir/print.h"

namespace saker::frontend {

namespace {

// Guards hold one by one, and what was recorded asks for more.
std::string relation(const Segment& segment, const CallArguments& call) {
  Found found;
  bool holds = segment.guards.check(call, found);
  std::string sizes = holds ? differingSizes(segment, found.places) : "";
  return sizes.empty() ? "which tensors share memory" : sizes;
}

std::string& failure() {
  static std::string& text = *new std::string;  // set by failNext
  return text;
}

}  // namespace

void Compiled::note(const Report& report, const Segment& segment) {
  KeptError kept;  // of a call that raised
  constexpr size_t kKept = 64;
  if (reports_.size() == kKept) reports_.erase(reports_.begin());
  reports_.push_back(report);
  if (report.why) ++counts().stops[static_cast<size_t>(report.why->why)];
  if (report.instead) ++counts().instead[static_cast<size_t>(report.instead->why)];
  if (!report.changed.empty()) usage_.changed = report.changed;
  if (usage_.name.empty()) {
    Definition at = definitionOf(function_.get());
    usage_.name = functionName(function_.get());
    usage_.file = at.file;
    usage_.line = at.line;
  }
  for (const std::optional<Stop>& each : {report.why, report.instead}) {
    if (!each || report.outcome == "static" || report.again) continue;
    ++usage_.told[each->why];
    usage_.stops.insert_or_assign(each->why, *each);
  }
  std::string name = functionName(function_.get());
  if (report.outcome == "eager" && logs(Topic::Breaks)) {
    const Stop& why = *report.why;
    std::string where = why.file.empty() ? "" : why.file + ":" + std::to_string(why.line) + ": ";
    log(Topic::Breaks, where + name + " runs eagerly: " + why.text() + " [" + why.reason().name + "]");
  }
  if (report.instead && logs(Topic::Breaks)) {
    log(Topic::Breaks, "the gradients of " + name + " are not compiled, autograd follows its recording: " +
                           report.instead->text() + " [" + report.instead->reason().name + "]");
  }
  if (report.instead && report.instead->why != Why::SwitchedOff && report.instead->why != Why::AwaitsBackward) {
    tellOnce(function_.get(), "is replayed, but its gradients are not compiled", *report.instead);
  }
  if (report.outcome == "static" && logs(Topic::Recompiles)) {
    log(Topic::Recompiles, name + " cannot be captured with symbolic sizes: " +
                               (report.why ? report.why->text() : "no sizes are left that may change"));
  }
  if (report.outcome != "static" && !report.changed.empty() && logs(Topic::Recompiles)) {
    log(Topic::Recompiles, name + " was recorded again: " + report.changed);
  }
  if (report.outcome != "static" && logs(Topic::Captures)) {
    auto milliseconds = [](double seconds) { return std::to_string(static_cast<int64_t>(seconds * 1e3)) + " ms"; };
    log(Topic::Captures, name + ": " + report.outcome + ", " + std::to_string(report.operators) + " operators, " +
                             std::to_string(report.guards) + " guards, " + std::to_string(report.effects) +
                             " effects, " + std::to_string(report.frames) + " frames; " +
                             milliseconds(report.watching) + " running and recording, " +
                             milliseconds(report.compiling) + " compiling");
  }
  if (report.why) return;
  if (logs(Topic::Guards)) {
    for (const std::string& text : segment.guards.texts()) log(Topic::Guards, text);
  }
  if (logs(Topic::Graph) && segment.program) log(Topic::Graph, ir::print(*segment.program->graph));
  if (logs(Topic::Effects)) {
    for (const DoneAgain& effect : segment.effects) {
      log(Topic::Effects, effect.callable ? Operations::name(effect.callable.get()) : "writes a variable");
    }
  }
}

void Compiled::keep(Known known) {
  if (known_.empty()) recorded_ = 0;  // after saker.reset()
  known.number = ++recorded_;
  known_.insert(known_.begin(), std::move(known));
}

void Compiled::noteChange(const Ambient& now, const CallArguments& call, const std::string& otherwise) {
  lastFailure_.clear();
  size_t nearest = 0, distance = SIZE_MAX;
  for (const Known& known : known_) {
    bool isAround = !(known.segment->ambient == now);
    Differences all = differencesOf(known.segment->guards, call);
    size_t far = all.distance + isAround;
    if (far >= distance) continue;
    distance = far;
    nearest = known.number;
    lastFailure_ = all.text();
    std::string around = isAround ? "another " + known.segment->ambient.difference(now) + " around the call" : "";
    if (!lastFailure_.empty() && isAround) lastFailure_ += "; " + around;
    if (!lastFailure_.empty()) continue;
    lastFailure_ = isAround ? around : !otherwise.empty() ? otherwise : relation(*known.segment, call);
  }
  if (known_.size() < 2) return;
  lastFailure_ += " (recording " + std::to_string(nearest) + ", the nearest of " + std::to_string(known_.size()) + ")";
}

void tellInternalFailure(const std::string& what, const std::string& where) {
  ++counts().fallbacks;
  std::string text = "saker: an internal failure in compiling " + where + " (" + what.substr(0, what.find('\n')) +
                     "); it runs without compiling, with the same results. Please report this.";
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) != 0) PyErr_Clear();  // not even if warnings are errors
}

void failNext(const std::string& text) { failure() = text; }

void failIfAsked() {
  if (!failure().empty()) throw std::runtime_error(std::exchange(failure(), ""));
}

void Compiled::noteAround(Why why) {
  if (!toldAround_.insert(why).second) return;
  Report report;
  report.outcome = "eager";
  report.why = why;
  note(report, Segment());
  tellEager(*report.why);
}

void Compiled::noteEager(const Segment& segment, Why why) {
  Report report;
  report.outcome = "eager";
  report.why = why;
  for (Known& known : known_) {
    if (known.segment.get() == &segment) known.eager = report.why;
  }
  ++counts().breaks;
  note(report, segment);
  tellEager(*report.why);
}

// What a call raises is told by the error; an internal failure has a warning of its own.
void Compiled::tellEager(const Stop& why) {
  if (why.why == Why::Raised || why.why == Why::Internal) return;
  tellOnce(function_.get(), "runs eagerly", why);
}

// With fullgraph=True it raises.
bool Compiled::warnLimit() {
  size_t limit = options_.limit ? options_.limit : recompileLimit();
  std::string name = functionName(function_.get()), times = std::to_string(limit) + (limit == 1 ? " time" : " times");
  std::string text = name + " was recorded " + times;
  std::string hint = "what kept changing: " + lastFailure_ + "; recompile_limit=" + std::to_string(limit) +
                     " of saker.compile, or saker.set_recompile_limit(), sets the limit";
  if (options_.fullgraph) {
    setCaptureError("Unsupported", text + ", and fullgraph=True lets no other call run eagerly; " + hint);
    return false;
  }
  if (warned_) return true;
  warned_ = true;
  Report report;
  report.outcome = "eager";
  report.why = Stop(Why::RecompileLimit, times, lastFailure_);
  note(report, Segment());
  // Where none of them is replayed, the user knows why already, and a higher limit is no remedy.
  bool anyReplayed = std::any_of(known_.begin(), known_.end(), [](const Known& known) { return !known.eager; });
  if (anyReplayed) tellOnce(function_.get(), "runs eagerly for other arguments from now on", *report.why);
  return true;
}

}  // namespace saker::frontend
