// What compiled functions report: to saker.explain, to the logs, and when something of Saker's own goes wrong.
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "frontend/compiled.h"
#include "frontend/kept_error.h"
#include "frontend/log.h"
#include "ir/print.h"

namespace saker::frontend {

namespace {

std::string& failure() {
  static std::string& text = *new std::string;  // set by failNext
  return text;
}

py::list versionsOf(const py::object& object) {
  py::list out;
  for (const std::shared_ptr<Version>& version : unwrap(object).versions()) {
    py::dict each;
    each["eager"] = version->eager;
    each["guards"] = version->guards.texts();
    each["effects"] = version->effects.size();
    each["program"] = version->program;
    out.append(each);
  }
  return out;
}

py::list reportsOf(const py::object& object) {
  py::list out;
  for (const Report& report : unwrap(object).reports()) {
    py::dict each;
    each["outcome"] = report.outcome;
    each["why"] = report.why;
    each["file"] = report.file;
    each["line"] = report.line;
    each["changed"] = report.changed;
    each["internal"] = report.internal;
    each["frames"] = report.frames;
    each["operators"] = report.operators;
    each["guards"] = report.guards;
    each["effects"] = report.effects;
    each["watching"] = report.watching;
    each["compiling"] = report.compiling;
    out.append(each);
  }
  return out;
}

// The median time of a check of the newest version's guards, in seconds.
double timeGuards(const py::object& object, const py::tuple& args, size_t repeats) {
  const auto& versions = unwrap(object).versions();
  if (versions.empty() || repeats == 0) throw py::value_error("nothing was recorded yet");
  CallArguments call{reinterpret_cast<PyTupleObject*>(args.ptr())->ob_item, args.size(), nullptr};
  std::vector<double> times;
  for (size_t i = 0; i < repeats; ++i) {
    auto start = std::chrono::steady_clock::now();
    std::vector<PyObject*> found;
    if (!versions[0]->guards.check(call, found)) throw py::value_error("the guards do not hold of these arguments");
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(repeats / 2), times.end());
  return times[repeats / 2];
}

}  // namespace

void Compiled::note(const Report& report, const Version& version) {
  KeptError kept;  // of a call that raised
  constexpr size_t kKept = 64;
  if (reports_.size() == kKept) reports_.erase(reports_.begin());
  reports_.push_back(report);
  std::string name = Operations::name(function_.get());
  if (report.outcome == "eager" && logs(Topic::Breaks)) {
    std::string where = report.file.empty() ? "" : report.file + ":" + std::to_string(report.line) + ": ";
    log(Topic::Breaks, where + name + " runs eagerly: " + report.why);
  }
  if (report.outcome == "static" && logs(Topic::Recompiles)) {
    log(Topic::Recompiles, name + " cannot be captured with symbolic sizes: " + report.why);
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
  if (!report.why.empty()) return;
  if (logs(Topic::Guards)) {
    for (const std::string& text : version.guards.texts()) log(Topic::Guards, text);
  }
  if (logs(Topic::Graph) && version.program) log(Topic::Graph, ir::print(*version.program->graph));
  if (logs(Topic::Effects)) {
    for (const DoneAgain& effect : version.effects) {
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

void bindReports(py::module_& module) {
  module.def("compiled_versions", &versionsOf);
  module.def("compiled_reports", &reportsOf);
  module.def("time_guards", &timeGuards);
  module.def("fail_next_compile", &failNext);
  module.def("set_logs", [](const std::string& topics) { return setLogs(topics); });
  module.def("log_topics", &logTopics);
  module.def("set_progress_after", [](double seconds) { Progress::after() = seconds; });
}

}  // namespace saker::frontend
