#include "frontend/verify.h"

#include <torch/csrc/utils/pybind.h>

#include "frontend/host_call.h"
#include "frontend/kinds.h"

namespace saker::frontend {

namespace py = pybind11;

bool canVerify(const Segment& segment, PyObject* function) {
  if (segment.ambient.functionModes > 0) return false;  // comparing would ask them
  if (!segment.effects.empty() || !segment.draws.empty() || segment.sets) return false;
  if (segment.program && !hostCallsOf(segment.program->objects).repeatable) return false;
  for (const c10::IValue& object : segment.program ? segment.program->objects : std::vector<c10::IValue>()) {
    if (object.isGenerator()) return false;  // both runs would draw from it
  }
  PyObject* self = PyMethod_Check(function) ? PyMethod_GET_SELF(function) : function;
  std::vector<bool> copied(segment.guards.places);
  for (const GuardInstruction& at : segment.guards.instructions) {
    switch (at.op) {
      case GuardOp::Positional:
      case GuardOp::Keyword:
        copied[at.place] = true;
        break;
      case GuardOp::FrameLocal:
      case GuardOp::FrameUnbound:
      case GuardOp::FrameStack:
        return false;  // no call of a function
      case GuardOp::FunctionMode:
        break;
      case GuardOp::Fixed:
        copied[at.place] = at.object.get() == self;
        break;
      case GuardOp::Same:
      case GuardOp::Different:
        if (copied[at.place] != copied[static_cast<size_t>(at.number)]) return false;
        break;
      case GuardOp::Is:
        if (copied[at.place] && !isAtom(at.object.get()) && !isNamed(at.object.get())) return false;
        break;
      default:
        if (at.op <= GuardOp::ContextValue) copied[at.place] = copied[at.parent];
    }
  }
  for (uint32_t place : segment.inputs) {
    if (segment.writes && !copied[place]) return false;
  }
  return true;
}

PyObject* runVerified(Replay& replay, PyObject* function, const CallArguments& call) {
  py::tuple args(call.positional);
  for (size_t i = 0; i < call.positional; ++i) args[i] = py::reinterpret_borrow<py::object>(call.values[i]);
  py::dict keywords;
  for (Py_ssize_t i = 0; call.names && i < PyTuple_GET_SIZE(call.names); ++i) {
    keywords[py::handle(PyTuple_GET_ITEM(call.names, i))] =
        py::reinterpret_borrow<py::object>(call.values[call.positional + static_cast<size_t>(i)]);
  }
  py::cpp_function again([&] {
    PyObject* result = replay.run();
    if (!result) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(result);
  });
  try {
    py::object check = py::module_::import("saker._verify").attr("run");
    return check(py::handle(function), args, keywords, again).release().ptr();
  } catch (py::error_already_set& error) {
    error.restore();
    return nullptr;
  }
}

}  // namespace saker::frontend
