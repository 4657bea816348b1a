#include "watch/checks.h"

#include <string_view>

#include "watch/machine.h"
#include "watch/session.h"

namespace saker::watch {

namespace {

// What builds an exception and its text, without a way around.
bool raises(const Instruction* at) {
  constexpr int kMost = 128;
  for (int i = 0; i < kMost; ++i, at += at->length) {
    switch (at->op) {
      case Op::Raise:
        return true;
      case Op::Nop:
      case Op::Pop:
      case Op::PushNull:
      case Op::Copy:
      case Op::Swap:
      case Op::LoadConst:
      case Op::LoadFast:
      case Op::LoadGlobal:
      case Op::LoadCell:
      case Op::LoadAssertionError:
      case Op::LoadAttribute:
      case Op::LoadMethod:
      case Op::UnaryNegative:
      case Op::UnaryNot:
      case Op::BinaryOp:
      case Op::Compare:
      case Op::FormatValue:
      case Op::LoadItem:
      case Op::LoadSlice:
      case Op::BuildTuple:
      case Op::BuildList:
      case Op::BuildMap:
      case Op::BuildString:
      case Op::BuildSlice:
      case Op::Call:
      case Op::CallSpread:
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
  if (machine.at == nullptr || machine.at->op != Op::Call) return nullptr;
  PyObject** arguments = machine.sp - machine.at->arg;
  return arguments[-2] != nullptr ? arguments[-2] : arguments[-1];
}

// The instruction that is given the result of the running call. Where that returns it (`return bool(question)`), the
// one in the calling frame: `machine` becomes that frame.
const Instruction* useOfResult(const Machine*& machine) {
  const Instruction* use = machine->at + machine->at->length;
  while (use->op == Op::Return && machine->outer != nullptr) {
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
  const Instruction* jump = machine->at;
  if (calledBy(*machine) == reinterpret_cast<PyObject*>(&PyBool_Type)) jump = useOfResult(machine);
  if (jump->op != Op::JumpIfTrue && jump->op != Op::JumpIfFalse) return std::nullopt;
  const bool jumps = raises(machine->code + jump->arg), goesOn = raises(jump + jump->length);
  if (jumps == goesOn) return std::nullopt;
  const bool truthThatJumps = jump->op == Op::JumpIfTrue;
  return jumps ? !truthThatJumps : truthThatJumps;
}

bool chooses() {
  const Session* session = currentSession();
  const Machine* machine = session == nullptr ? nullptr : session->innermost;
  PyObject* callable = machine == nullptr ? nullptr : calledBy(*machine);
  return callable != nullptr && (isBuiltin(callable, "min") || isBuiltin(callable, "max"));
}

}  // namespace saker::watch
