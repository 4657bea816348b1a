#include "python/frame_guards.h"

#include <string>
#include <vector>

#include "frontend/subject.h"
#include "host/trace_host.h"

namespace saker::python {

namespace {

namespace py = pybind11;
using namespace saker::frontend;

// Reads all that a container holds, as a program does that looks into it.
class Reader final : public SubjectOf<Reader> {
 public:
  using SubjectOf::SubjectOf;
  void readAll(PyObject* object) { realize(object, /*deep=*/true); }
};

// A state of a frame as a test gives it: a name that is not in `locals` is not bound.
struct State {
  State(const py::tuple& names, const py::dict& locals, const py::list& stack) : heldLocals(locals), heldStack(stack) {
    for (py::handle name : names) {
      PyObject* value = PyDict_GetItemWithError(locals.ptr(), name.ptr());
      slots.push_back(value);
    }
    for (py::handle value : stack) values.push_back(value.ptr());
  }

  py::dict heldLocals;
  py::list heldStack;
  std::vector<PyObject*> slots, values;
};

class FrameGuards {
 public:
  FrameGuards(py::tuple given, const py::dict& locals, const py::list& stack) : names_(std::move(given)) {
    State state(names_, locals, stack);
    std::vector<PyObject*> names;
    for (py::handle name : names_) names.push_back(name.ptr());
    tracing::Tape tape(pythonHost());
    Recorder recorder(tape, Py_None, CallArguments{nullptr, 0, nullptr});
    recorder.meetFrame(names, state.slots, state.values);
    Reader reader(recorder);
    for (const std::vector<PyObject*>* slots : {&state.slots, &state.values}) {
      for (PyObject* each : *slots) {
        if (each) reader.readAll(each);
      }
    }
    if (recorder.stopped()) throw py::value_error(recorder.stopped()->text());
    if (tape.spoiled()) throw py::value_error(tape.spoiled()->text());
    guards_ = recorder.takeGuards();
  }

  // Empty: they hold of this state.
  std::string failure(const py::dict& locals, const py::list& stack) const {
    State state(names_, locals, stack);
    CallArguments roots{nullptr, 0, nullptr, state.slots, state.values};
    Found found;
    return guards_.check(roots, found) ? "" : guards_.failure(found);
  }
  std::vector<std::string> texts() const { return guards_.texts(); }

 private:
  py::tuple names_;
  Guards guards_;
};

}  // namespace

void bindFrameGuards(py::module_& module) {
  py::class_<FrameGuards>(module, "FrameGuards")
      .def(py::init<py::tuple, const py::dict&, const py::list&>())
      .def("failure", &FrameGuards::failure)
      .def_property_readonly("texts", &FrameGuards::texts);
}

}  // namespace saker::python
