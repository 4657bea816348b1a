// Traces for Python: with saker.deferred().
#include "python/trace.h"

#include "capture/trace.h"

namespace saker::python {

namespace {

struct DeferredScope {
  std::shared_ptr<capture::Trace> trace;
  std::unique_ptr<capture::TraceScope> scope;

  void enter() {
    trace = std::make_shared<capture::Trace>(capture::Mode::Deferred, capture::Host{});
    scope = std::make_unique<capture::TraceScope>(trace);
  }
  void leave() {
    scope.reset();
    trace->flush();
  }
};

}  // namespace

void bindTrace(py::module_& module) {
  py::class_<DeferredScope>(module, "DeferredScope")
      .def(py::init<>())
      .def("enter", &DeferredScope::enter)
      .def("leave", &DeferredScope::leave)
      .def("flush", [](DeferredScope& self) { self.trace->flush(); })
      .def("pending", [](DeferredScope& self) { return self.trace->graph().liveNodes(); })
      .def("stats", [](DeferredScope& self) {
        const capture::TraceStats& stats = self.trace->stats();
        py::dict out;
        out["recorded"] = stats.recorded;
        out["flushes"] = stats.flushes;
        out["ran_at_once"] = stats.ranAtOnce;
        out["layout_mismatches"] = stats.layoutMismatches;
        return out;
      });
  module.def("flush", [] {
    if (capture::Trace* trace = capture::current()) trace->flush();
  });
}

}  // namespace saker::python
