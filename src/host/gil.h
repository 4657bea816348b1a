// The interpreter's lock, taken or let go of for as long as one of these lives.
#pragma once

#include <Python.h>

namespace saker {

class HoldInterpreter {
 public:
  HoldInterpreter() : state_(PyGILState_Ensure()) {}
  ~HoldInterpreter() { PyGILState_Release(state_); }
  HoldInterpreter(const HoldInterpreter&) = delete;
  HoldInterpreter& operator=(const HoldInterpreter&) = delete;

 private:
  PyGILState_STATE state_;
};

class ReleaseInterpreter {
 public:
  ReleaseInterpreter() : state_(PyEval_SaveThread()) {}
  ~ReleaseInterpreter() { PyEval_RestoreThread(state_); }
  ReleaseInterpreter(const ReleaseInterpreter&) = delete;
  ReleaseInterpreter& operator=(const ReleaseInterpreter&) = delete;

 private:
  PyThreadState* state_;
};

// Has no other thread run Python so far? The lock is held.
inline bool onlyPythonThread() {
  PyThreadState* first = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  return first && !PyThreadState_Next(first);
}

}  // namespace saker
