#include "watch/handled.h"

#include "watch/exception_table.h"
#include "watch/machine.h"

namespace saker::watch {

namespace {

PyObject* globalNamed(const Machine& machine, int index) {
  PyObject* name = machine.name(index);
  PyObject* found = PyDict_GetItemWithError(machine.frame.globals, name);
  if (found == nullptr && PyDict_Check(machine.frame.builtins)) {
    found = PyDict_GetItemWithError(machine.frame.builtins, name);
  }
  if (found == nullptr) PyErr_Clear();
  return found;
}

// A handler that consists of `except SomeClass` clauses of which none applies lets the exception pass.
bool mayCatch(const Machine& machine, const LoopInstruction* at, const Questions& ask) {
  for (;;) {
    if (at->op == LoopOp::Reraise) return false;
    const LoopInstruction* match = at + at->length;
    const LoopInstruction* jump = match + match->length;
    if (at->op != LoopOp::LoadGlobal || match->op != LoopOp::MatchException || jump->op != LoopOp::JumpIfFalse)
      return true;
    PyObject* cls = globalNamed(machine, at->arg);
    if (cls == nullptr || !PyType_Check(cls) || ask.catches(cls)) return true;
    at = machine.code + jump->arg;
  }
}

bool isHandled(const Machine& machine, const Questions& ask) {
  auto index = static_cast<int>(*machine.frame.position - machine.frame.units);
  constexpr int kMost = 64;
  Handler handler;
  for (int i = 0; i < kMost && findHandler(machine.frame.code, index, handler); ++i) {
    const LoopInstruction* first = machine.code + handler.target;
    // What begins otherwise (the ends of handlers, inlined comprehensions) only cleans up.
    if (first->op == LoopOp::PushException) {
      const LoopInstruction* second = first + first->length;
      if (second->op == LoopOp::ExitWith) {
        PyObject* exit = handler.depth > 0 ? machine.frame.bottom[handler.depth - 1] : nullptr;
        if (exit == nullptr || !ask.putsBackOnly(exit)) return true;
      } else if (mayCatch(machine, second, ask)) {
        return true;
      }
    }
    index = handler.target;  // what it does not stop goes on from there
  }
  return false;
}

}  // namespace

bool handled(const Questions& ask) {
  const Session* session = currentSession();
  if (session == nullptr) session = skippingSession();
  const Machine* machine = session == nullptr ? nullptr : session->innermost;
  for (; machine != nullptr; machine = machine->outer) {
    if (!ask.raisesAgain(machine->frame.globals) && isHandled(*machine, ask)) return true;
  }
  return false;
}

}  // namespace saker::watch
