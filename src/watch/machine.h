// A frame while the loop executes it. The handlers of instructions work on it. Internal to this folder.
#pragma once

#include <utility>

#include "watch/frame.h"
#include "watch/instruction.h"
#include "watch/ref.h"
#include "watch/session.h"

namespace saker::watch {

// What an instruction leads to.
enum class Flow : uint8_t {
  Next,       // to instruction `next`
  Error,      // an exception was raised here
  Reraise,    // an exception goes on its way: no new entry in its traceback
  Disturbed,  // CPython must go on at the next instruction: tracing is on, or the session was stopped below
  Stop,       // the observer does not want to see more; nothing has been done yet
  Unknown,    // the loop cannot execute this instruction; nothing has been done yet
  Leave,      // the frame is left with `result`
  Suspend,    // the generator yields `result`
};

struct Machine {
  SakerFrame frame;
  PyObject** sp = nullptr;  // one above the top of the value stack
  const LoopInstruction* code = nullptr;
  const LoopInstruction* at = nullptr;    // the running instruction
  const LoopInstruction* next = nullptr;  // and the one to follow
  PyObject* result = nullptr;
  PyObject* callee = nullptr;  // the Python function that is being called, until its frame is entered
  PyObject** given = nullptr;  // its arguments on the stack
  Session& session;
  Machine* outer;  // the watched frame that was running before

  explicit Machine(Session& owner) : session(owner), outer(owner.innermost) { owner.innermost = this; }
  ~Machine() { session.innermost = outer; }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  Observer& observer() const { return *session.observer; }
  int arg() const { return at->arg; }
  int index() const { return at->index; }
  void jump() { next = code + at->arg; }
  PyObject* name(int index) const { return PyTuple_GET_ITEM(frame.code->co_names, index); }
  PyObject* name() const { return name(at->arg); }
  PyObject* constant(int index) const { return PyTuple_GET_ITEM(frame.code->co_consts, index); }

  void push(PyObject* value) { *sp++ = value; }
  PyObject* pop() { return *--sp; }
  PyObject*& top(int depth = 1) { return sp[-depth]; }
  void drop() {
    PyObject* value = pop();
    Py_DECREF(value);
  }
  void drop(int count) {
    for (; count > 0; --count) drop();
  }
  void drain(PyObject** until) {
    while (sp > until) {
      PyObject* value = pop();
      Py_XDECREF(value);
    }
  }
  // Lets go of the uppermost `count` operands in the order in which CPython does: the lowest one first.
  void consume(int count) {
    sp -= count;
    for (int i = 0; i < count; ++i) Py_DECREF(sp[i]);
  }
  // Replaces the uppermost `count` operands by `value`, which may be nullptr: an exception is set.
  Flow replace(int count, PyObject* value) {
    consume(count);
    if (value == nullptr) return Flow::Error;
    push(value);
    return Flow::Next;
  }

  // The frame of the function being called has its arguments: from now on they are only its own, as they are where
  // CPython calls one Python function from another.
  void giveArguments() {
    callee = nullptr;
    for (PyObject** argument = given; argument < sp; ++argument) Py_CLEAR(*argument);
  }

  // An observer has refused an instruction that has begun already and cannot be handed over: it is finished unwatched.
  // False: an exception is set, to be raised in its place.
  bool finishUnwatched() {
    if (PyErr_Occurred() != nullptr) return false;
    session.stop();
    return true;
  }

  // Has a call made it necessary to hand the frame over? The observer has stopped, or tracing is on.
  bool disturbed() const { return session.stopped || (saker_frame_suspect(&frame) && saker_frame_traced(&frame)); }
  // Signals, the GIL. What signal handlers do is not the program's.
  Flow poll() {
    if (*frame.breaker == 0) [[likely]]
      return Flow::Next;
    const Unwatched unwatched;
    return saker_frame_poll(&frame) < 0 ? Flow::Error : Flow::Next;
  }
};

inline PyObject* newRef(PyObject* object) { return Py_NewRef(object); }
inline PyObject* truth(bool value) { return Py_NewRef(value ? Py_True : Py_False); }

}  // namespace saker::watch
