#include "watch/checks.h"

#include <string_view>

#include "watch/machine.h"
#include "watch/session.h"

namespace saker::watch {

namespace {

// What builds an exception and its text, without a way around.
bool raises(const LoopInstruction* at) {
  constexpr int kMost = 128;
  for (int i = 0; i < kMost; ++i, at += at->length) {
    switch (at->op) {
      case LoopOp::Raise:
        return true;
      case LoopOp::Nop:
      case LoopOp::Pop:
      case LoopOp::PushNull:
      case LoopOp::Copy:
      case LoopOp::Swap:
      case LoopOp::LoadConst:
      case LoopOp::LoadFast:
      case LoopOp::LoadGlobal:
      case LoopOp::LoadCell:
      case LoopOp::LoadAssertionError:
      case LoopOp::LoadAttribute:
      case LoopOp::LoadMethod:
      case LoopOp::UnaryNegative:
      case LoopOp::UnaryNot:
      case LoopOp::BinaryOp:
      case LoopOp::Compare:
      case LoopOp::FormatValue:
      case LoopOp::LoadItem:
      case LoopOp::LoadSlice:
      case LoopOp::BuildTuple:
      case LoopOp::BuildList:
      case LoopOp::BuildMap:
      case LoopOp::BuildString:
      case LoopOp::BuildSlice:
      case LoopOp::Call:
      case LoopOp::CallSpread:
        break;
      default:
        return false;
    }
  }
  return false;
}

// Without the interpreter's lock: operators run without it.
bool isBuiltin(PyObject* callable, std::string_view name) {
  if (!PyCFunction_CheckExact(callable)) return false;
  auto* function = reinterpret_cast<PyCFunctionObject*>(callable);
  if (function->m_self == nullptr || !Py_IS_TYPE(function->m_self, &PyModule_Type)) return false;
  const PyModuleDef* module = PyModule_GetDef(function->m_self);
  return name == function->m_ml->ml_name && module != nullptr && std::string_view(module->m_name) == "builtins";
}

// What the running instruction calls; nullptr: it is no call.
PyObject* calledBy(const Machine& machine) {
  if (machine.at == nullptr || machine.at->op != LoopOp::Call) return nullptr;
  PyObject** arguments = machine.sp - machine.at->arg;
  return arguments[-2] != nullptr ? arguments[-2] : arguments[-1];
}

// The instruction that is given the result of the running call. Where that returns it (`return bool(question)`), the
// one in the calling frame: `machine` becomes that frame.
const LoopInstruction* useOfResult(const Machine*& machine) {
  const LoopInstruction* use = machine->at + machine->at->length;
  while (use->op == LoopOp::Return && machine->outer != nullptr) {
    PyObject* called = calledBy(*machine->outer);
    const bool directly = called != nullptr && PyFunction_Check(called) &&
                          PyFunction_GET_CODE(called) == reinterpret_cast<PyObject*>(machine->frame.code);
    if (!directly) break;
    machine = machine->outer;
    use = machine->at + machine->at->length;
  }
  return use;
}

}  // namespace

std::optional<bool> checkedTruth() {
  const Session* session = currentSession();
  const Machine* machine = session == nullptr ? nullptr : session->innermost;
  if (machine == nullptr || machine->at == nullptr) return std::nullopt;
  const LoopInstruction* jump = machine->at;
  if (calledBy(*machine) == reinterpret_cast<PyObject*>(&PyBool_Type)) jump = useOfResult(machine);
  if (jump->op != LoopOp::JumpIfTrue && jump->op != LoopOp::JumpIfFalse) return std::nullopt;
  const bool jumps = raises(machine->code + jump->arg), goesOn = raises(jump + jump->length);
  if (jumps == goesOn) return std::nullopt;
  const bool truthThatJumps = jump->op == LoopOp::JumpIfTrue;
  return jumps ? !truthThatJumps : truthThatJumps;
}

bool chooses() {
  const Session* session = currentSession();
  const Machine* machine = session == nullptr ? nullptr : session->innermost;
  PyObject* callable = machine == nullptr ? nullptr : calledBy(*machine);
  return callable != nullptr && (isBuiltin(callable, "min") || isBuiltin(callable, "max"));
}

}  // namespace saker::watch
