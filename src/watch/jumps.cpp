// Conditional jumps.
#include "watch/handlers.h"

namespace saker::watch {

namespace {

// 1, 0, -1 with an exception, or -2: the observer stops. Nothing is told about True, False and None.
int ask(Machine& m, PyObject* value) {
  if (value == Py_True) return 1;
  if (value == Py_False || value == Py_None) return 0;
  if (!m.observer().unary(Unary::Truth, value)) return -2;
  return PyObject_IsTrue(value);
}

Flow jump(Machine& m) {
  m.jump();
  return m.at->extra != 0 ? m.poll() : Flow::Next;
}

Flow jumpIf(Machine& m, int wanted) {
  const int answer = ask(m, m.top());
  if (answer == -2) return Flow::Stop;
  m.drop();
  if (answer < 0) return Flow::Error;
  return answer == wanted ? jump(m) : Flow::Next;
}

Flow jumpOrPop(Machine& m, int wanted) {
  const int answer = ask(m, m.top());
  if (answer == -2) return Flow::Stop;
  if (answer < 0) return Flow::Error;
  if (answer == wanted) return jump(m);
  m.drop();
  return Flow::Next;
}

Flow jumpIfNone(Machine& m, bool wanted) {
  const bool none = m.top() == Py_None;
  m.drop();
  return none == wanted ? jump(m) : Flow::Next;
}

}  // namespace

Flow jumpIfTrue(Machine& m) { return jumpIf(m, 1); }
Flow jumpIfFalse(Machine& m) { return jumpIf(m, 0); }
Flow jumpIfNone(Machine& m) { return jumpIfNone(m, true); }
Flow jumpIfNotNone(Machine& m) { return jumpIfNone(m, false); }
Flow jumpIfTrueOrPop(Machine& m) { return jumpOrPop(m, 1); }
Flow jumpIfFalseOrPop(Machine& m) { return jumpOrPop(m, 0); }

}  // namespace saker::watch
