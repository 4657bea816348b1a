// What compiled functions report: to saker.explain, to the logs, and when something of Saker's own goes wrong.
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "frontend/compiled.h"
#include "frontend/log.h"
#include "host/errors.h"
#include "host/kept_error.h"
#include "ir/print.h"

namespace saker::frontend {

namespace {

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
  std::string name = Operations::name(function_.get());
  if (report.outcome == "eager" && logs(Topic::Breaks)) {
    const Stop& why = *report.why;
    std::string where = why.file.empty() ? "" : why.file + ":" + std::to_string(why.line) + ": ";
    log(Topic::Breaks, where + name + " runs eagerly: " + why.text() + " [" + why.reason().name + "]");
  }
  if (report.instead && logs(Topic::Breaks)) {
    log(Topic::Breaks, "the gradients of " + name + " are not compiled, autograd follows its recording: " +
                           report.instead->text() + " [" + report.instead->reason().name + "]");
  }
  if (report.outcome == "static" && logs(Topic::Recompiles)) {
    log(Topic::Recompiles, name + " cannot be captured with symbolic sizes: " +
                               (report.why ? report.why->text() : "no sizes are left that may change"));
  }
  if (report.outcome != "static" && !report.changed.empty() && logs(Topic::Recompiles)) {
    log(Topic::Recompiles, name + " was recorded again; this did not hold: " + report.changed);
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
  Report report;
  report.outcome = "eager";
  report.why = Stop(Why::RecompileLimit, times, lastFailure_);
  note(report, Segment());
  text = "saker: " + text + " and runs eagerly for other arguments from now on; " + hint;
  return PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) == 0;
}

}  // namespace saker::frontend
