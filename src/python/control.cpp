#include "python/control.h"

#include "capture/regions.h"
#include "capture/tape.h"
#include "capture/trace.h"
#include "capture/user_code.h"
#include "control/call_derivative.h"
#include "control/derivative.h"
#include "control/record_bodies.h"
#include "frontend/compiled.h"
#include "host/trace_host.h"
#include "runtime/loop_values.h"

namespace saker::python {

namespace {

using tracing::ClosedBodies;

// Bodies as Python holds them.
struct PyBodies {
  c10::intrusive_ptr<ClosedBodies> bodies;
};

ClosedBodies::Kind kindOf(const std::string& name) {
  if (name == "if") return ClosedBodies::Kind::If;
  return name == "while" ? ClosedBodies::Kind::While : ClosedBodies::Kind::Scan;
}

class PyBodyRecorder {
 public:
  explicit PyBodyRecorder(const std::string& kind)
      : recorder_(pythonHost(), kindOf(kind), kindOf(kind) == ClosedBodies::Kind::Scan ? 1 : 2) {}
  std::vector<at::Tensor> begin(const std::vector<at::Tensor>& operands, const std::vector<bool>& sliced,
                                const std::vector<std::string>& names) {
    return recorder_.begin(operands, sliced, names);
  }
  bool end(std::vector<at::Tensor> results) { return recorder_.end(std::move(results)); }
  // None: they have to run as Python code.
  std::optional<std::pair<PyBodies, std::vector<at::Tensor>>> close(size_t carried, size_t sliced, bool reverse) {
    std::vector<at::Tensor> closed;
    try {
      PyBodies bodies{recorder_.close(closed, {.carried = carried, .sliced = sliced, .reverse = reverse})};
      return std::pair{std::move(bodies), std::move(closed)};
    } catch (const control::OnlyAsPython&) {
      return std::nullopt;
    }
  }
  // The object may outlive what is recorded around it, in the traceback of an error.
  void cancel() { recorder_.cancel(); }
  bool alone() const { return recorder_.alone(); }
  bool left() const { return recorder_.left(); }

 private:
  control::BodyRecorder recorder_;
};

void runLeniently(const std::function<void()>& run) {
  py::gil_scoped_acquire gil;
  PyErr_Clear();  // the engine leaves the error of the first try
  py::module_::import("saker._aot").attr("run_leniently")(py::cpp_function([&] {
    py::gil_scoped_release released;
    run();
  }));
}

// That this thread is in.
thread_local std::vector<std::unique_ptr<tracing::MarkedRegion>> regions;

// Ctrl-C, and whatever else a handler of a signal raises.
void raiseSignals() {
  py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace

void bindControl(py::module_& module) {
  control::setLeniently(&runLeniently);
  runtime::setInterruption(&raiseSignals);
  py::class_<PyBodies>(module, "Bodies").def_property_readonly("is_random", [](const PyBodies& self) {
    return self.bodies->isRandom();
  });
  py::class_<PyBodyRecorder>(module, "BodyRecorder")
      .def(py::init<const std::string&>())
      .def("begin", &PyBodyRecorder::begin)
      .def("end", &PyBodyRecorder::end)
      .def("close", &PyBodyRecorder::close)
      .def_property_readonly("alone", &PyBodyRecorder::alone)
      .def_property_readonly("left", &PyBodyRecorder::left)
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](PyBodyRecorder& self, const py::args&) { self.cancel(); });
  module.def("call_bodies", [](const std::vector<at::Tensor>& operands, const PyBodies& bodies) {
    py::gil_scoped_release free;
    return tracing::callBodies(operands, bodies.bodies);
  });
  // Of a while loop, with its history as one more result.
  module.def("call_keeping", [](const std::vector<at::Tensor>& operands, const PyBodies& bodies) {
    py::gil_scoped_release free;
    return tracing::callBodies(operands, control::withSaved(bodies.bodies));
  });
  // A region that the program marked begins and ends; they nest.
  module.def("begin_region", [] { regions.emplace_back(std::make_unique<tracing::MarkedRegion>()); });
  module.def("end_region", [](bool returned) {
    if (regions.empty()) return;
    std::unique_ptr<tracing::MarkedRegion> region = std::move(regions.back());
    regions.pop_back();
    if (returned) region->end();
  });
  // torch.ops.higher_order.print
  module.def("print_text", [](const py::str& format, const py::args& args, const py::kwargs& kwargs) {
    py::module_::import("builtins").attr("print")(format.attr("format")(*args, **kwargs));
  });
  module.def("note_applied", &tracing::noteApplied);
  module.def("take_applied", &tracing::takeApplied);
  module.def("derivatives_made", &control::derivativesMade);
  // Is this thread inside of a compiled function that runs as it is?
  module.def("is_inside", [] { return !tracing::currentTape() && !tracing::current() && frontend::insideCall(); });
  module.def("call_inside", [](const py::function& function, const py::args& args, const py::kwargs& kwargs) {
    frontend::Inside inside;
    return function(*args, **kwargs);
  });
  // Is something recorded on this thread, or is it inside of a compiled function?
  module.def("is_engaged", [] { return tracing::currentTape() || tracing::current() || frontend::insideCall(); });
}

}  // namespace saker::python
