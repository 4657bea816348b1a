#include "python/compile.h"

#include <algorithm>
#include <chrono>

#include "frontend/allowed.h"
#include "frontend/compiled.h"
#include "frontend/guard_groups.h"
#include "frontend/log.h"
#include "frontend/user_names.h"
#include "python/wrapped.h"
#include "runtime/timed_run.h"

namespace saker::python {

namespace {

using namespace frontend;

// Would nobody see that it ran once more? Random numbers are for the caller to put back.
bool changesNothing(const Segment& segment) {
  return !segment.writes && !segment.sets && segment.effects.empty() && !segment.modes && segment.draws.empty() &&
         segment.histories.empty() && segment.handles == 0 && segment.unseen.empty() && segment.locks.empty() &&
         (!segment.program ||
          (runtime::changesNothing(*segment.program) && !callsUserOperators(*segment.program->graph)));
}

Compiled& unwrap(const py::object& object) {
  Compiled* compiled = compiledOf(object.ptr());
  if (!compiled) throw py::type_error("not a compiled function");
  return *compiled;
}

py::object make(const py::object& function, bool fullgraph, bool ahead, const py::object& backend, size_t limit,
                const py::object& dynamic, bool verify, bool native, bool toTheBit) {
  using Dynamic = Options::Dynamic;
  Dynamic sizes = dynamic.is_none() ? Dynamic::WhenChanged : py::cast<bool>(dynamic) ? Dynamic::Always : Dynamic::Never;
  Ref given = backend.is_none() ? Ref() : Ref::borrow(backend.ptr());
  return py::reinterpret_steal<py::object>(
      makeCompiled(function.ptr(), {fullgraph, ahead, given, sizes, limit, {native, toTheBit}, verify}));
}

// By guard, in the order of their texts.
py::list groupNames(const Segment& segment, PyObject* function) {
  py::list out;
  for (GuardGroup group : groupsOf(segment.guards, function)) out.append(py::str(std::string(nameOf(group))));
  return out;
}

py::list versionsOf(const py::object& object) {
  py::list out;
  for (const Known& known : unwrap(object).known()) {
    py::dict each;
    each["eager"] = known.eager ? known.eager->text() : "";
    each["guards"] = known.segment->guards.texts();
    each["effects"] = known.segment->effects.size();
    each["groups"] = groupNames(*known.segment, unwrap(object).function());
    each["program"] = known.segment->program;
    each["compiled"] = known.segment->compiled;
    each["pure"] = changesNothing(*known.segment);
    out.append(each);
  }
  return out;
}

py::list reportsOf(const py::object& object) {
  py::list out;
  for (const Report& report : unwrap(object).reports()) {
    py::dict each;
    each["outcome"] = report.outcome;
    each["why"] = report.why ? report.why->text() : "";
    each["reason"] = report.why ? report.why->reason().name : "";
    each["kind"] = report.why ? kindName(report.why->reason().kind) : "";
    each["hint"] = report.why ? report.why->reason().hint : "";
    each["file"] = report.why ? report.why->file : "";
    each["line"] = report.why ? report.why->line : 0;
    each["instead"] = report.instead ? report.instead->text() : "";
    each["instead_name"] = report.instead ? report.instead->reason().name : "";
    each["instead_hint"] = report.instead ? report.instead->reason().hint : "";
    py::list stages;
    for (const passes::StageRun& run : report.stages) {
      stages.append(py::make_tuple(nameOf(run.stage), run.of, run.milliseconds / 1e3, run.nodes));
    }
    each["stages"] = stages;
    each["changed"] = report.changed;
    each["internal"] = report.internal;
    each["again"] = report.again;
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

py::dict usageOf(const Usage& usage, const std::string& name, const Definition& at, bool exists) {
  py::dict told;
  told["name"] = name;
  told["file"] = at.file;
  told["line"] = at.line;
  told["exists"] = exists;
  told["calls"] = usage.calls();
  told["replays"] = usage.replays;
  told["recordings"] = usage.recordings;
  told["eager_calls"] = usage.eager;
  told["changed"] = usage.changed;
  py::list reasons;
  for (const auto& [why, stop] : usage.stops) {
    py::dict reason;
    auto calls = usage.eagerCalls.find(why);
    reason["name"] = stop.reason().name;
    reason["kind"] = kindName(stop.reason().kind);
    reason["text"] = stop.sentence();
    reason["hint"] = stop.reason().hint;
    reason["file"] = stop.file;
    reason["line"] = stop.line;
    reason["times"] = usage.told.at(why);
    reason["eager_calls"] = calls == usage.eagerCalls.end() ? 0 : calls->second;
    reasons.append(reason);
  }
  told["reasons"] = reasons;
  auto seconds = [](std::optional<double> time) -> py::object {
    return time ? py::float_(*time) : py::object(py::none());
  };
  told["first_seconds"] = seconds(usage.first > 0 ? std::optional(usage.first) : std::nullopt);
  told["replay_seconds"] = seconds(usage.replayed.median());
  told["eager_seconds"] = seconds(usage.ran.median());
  told["forced_seconds"] = seconds(usage.forced.median());
  return told;
}

// What saker.stats()["functions"] has: functions that do not exist any more, then the others in the order in which they
// were compiled.
py::list usageOfAll() {
  // Copies: the dictionaries that are made may have the garbage collector end compiled functions.
  struct Living {
    uint64_t number;
    Usage usage;
    Ref function;
  };
  std::vector<Living> all;
  for (const Compiled* each : living()) {
    if (each->usage().calls() != 0) all.push_back({each->number(), each->usage(), Ref::borrow(each->function())});
  }
  std::sort(all.begin(), all.end(), [](const Living& a, const Living& b) { return a.number < b.number; });
  py::list out;
  for (const Usage& each : std::vector<Usage>(keptUsage())) {
    out.append(usageOf(each, each.name, {each.file, each.line}, /*exists=*/false));
  }
  for (const Living& each : all) {
    PyObject* function = each.function.get();
    out.append(usageOf(each.usage, functionName(function), definitionOf(function), /*exists=*/true));
  }
  return out;
}

// The median time of a check of the newest segment's guards, in seconds.
double timeGuards(const py::object& object, const py::tuple& args, size_t repeats) {
  const std::vector<Known>& known = unwrap(object).known();
  if (known.empty() || repeats == 0) throw py::value_error("nothing was recorded yet");
  frontend::CallArguments call{reinterpret_cast<PyTupleObject*>(args.ptr())->ob_item, args.size(), nullptr};
  std::vector<double> times;
  for (size_t i = 0; i < repeats; ++i) {
    auto start = std::chrono::steady_clock::now();
    Found found;
    if (!known[0].segment->guards.check(call, found))
      throw py::value_error("the guards do not hold of these arguments");
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(repeats / 2), times.end());
  return times[repeats / 2];
}

// (operator, file, line, seconds) of each node of the newest segment, run with these arguments.
py::list timeOperators(const py::object& object, const py::tuple& args, const py::dict& kwargs, size_t repeats) {
  const std::vector<Known>& known = unwrap(object).known();
  if (known.empty() || !known[0].segment->program) throw py::value_error("nothing was recorded yet");
  std::shared_ptr<const Segment> segment = known[0].segment;
  if (!changesNothing(*segment)) throw py::value_error("running it again would change something");
  std::vector<PyObject*> values;
  py::tuple names(kwargs.size());
  for (py::handle each : args) values.push_back(each.ptr());
  size_t next = 0;
  for (auto [name, each] : kwargs) {
    names[next++] = name;
    values.push_back(each.ptr());
  }
  frontend::CallArguments call{values.data(), args.size(), kwargs.size() ? names.ptr() : nullptr};
  Found found;
  Replay replay(*segment, found);
  if (!replay.fits(Ambient::now(), call)) throw py::value_error("the guards do not hold of these arguments");
  std::vector<at::Tensor> inputs = replay.inputs();
  std::vector<runtime::NodeTime> times;
  {
    py::gil_scoped_release released;
    times = runtime::timeNodes(*segment->program, inputs, repeats);
  }
  py::list out;
  for (const runtime::NodeTime& each : times) {
    const ir::Location* where = each.node->location();
    out.append(py::make_tuple(each.node->op()->qualified, where ? std::string(where->file) : "",
                              where ? where->line : 0, each.seconds));
  }
  return out;
}

}  // namespace

void bindCompile(py::module_& module) {
  module.attr("Compiled") = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(compiledType()));
  module.def("compile", &make, py::arg("function"), py::arg("fullgraph"), py::arg("ahead"), py::arg("backend"),
             py::arg("limit"), py::arg("dynamic"), py::arg("verify"), py::arg("native"), py::arg("to_the_bit"));
  module.def("set_recompile_limit", [](size_t limit) { return std::exchange(recompileLimit(), limit); });
  module.def("compiled_function",
             [](const py::object& object) { return py::reinterpret_borrow<py::object>(unwrap(object).function()); });
  bindWrapped(module);
  module.def("compiled_forget", [](const py::object& object) { unwrap(object).forget(); });
  module.def("forget_all", [] {
    std::vector<std::vector<Known>> gone;  // to go when all have been asked: that may end compiled functions
    for (Compiled* each : living()) gone.push_back(each->forgotten());
  });
  module.def("frontend_counts", [] {
    py::dict out;
    const Counts& all = counts();
    out["frames"] = all.frames;
    out["graphs"] = all.graphs;
    out["operators"] = all.operators;
    out["guards"] = all.guards;
    out["replays"] = all.replays;
    out["recompiles"] = all.recompiles;
    out["breaks"] = all.breaks;
    out["fallbacks"] = all.fallbacks;
    py::dict stops, instead;
    for (const StopReason& row : stopReasons()) {
      auto note = [&](py::dict& into, uint64_t count) {
        if (count != 0) into[row.name.c_str()] = count;
      };
      note(stops, all.stops[static_cast<size_t>(row.why)]);
      note(instead, all.instead[static_cast<size_t>(row.why)]);
    }
    out["stops"] = stops;
    out["instead"] = instead;
    return out;
  });
  module.def("stop_reasons", [] {
    py::list out;
    for (const StopReason& row : stopReasons())
      out.append(py::make_tuple(row.name, kindName(row.kind), row.text, row.hint));
    return out;
  });
  // Replays that were made to measure them are no part of what the program did.
  module.def("uncount_replays", [](uint64_t number) { counts().replays -= std::min(number, counts().replays); });
  module.def("reset_frontend_counts", [] {
    counts() = {};
    for (Compiled* each : living()) each->forgetUsage();
    forgetKeptUsage();
  });
  module.def("usage_of_functions", &usageOfAll);
  module.def("allow", [](const py::object& callable) { allow(callable.ptr()); });
  module.def("compiled_versions", &versionsOf);
  module.def("compiled_reports", &reportsOf);
  module.def("time_guards", &timeGuards);
  module.def("time_operators", &timeOperators);
  module.def("fail_next_compile", &failNext);
  module.def("set_logs", [](const std::string& topics) { return setLogs(topics); });
  module.def("log_topics", &logTopics);
  module.def("set_stages", [](const std::string& words) { return passes::setStages(words); });
  module.def("set_progress_after", [](double seconds) { Progress::after() = seconds; });
}

}  // namespace saker::python
