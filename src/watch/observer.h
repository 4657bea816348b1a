// What the watched loop tells about the program it runs. The loop knows CPython's frames and instructions and nothing
// else; who watches decides what is worth remembering, and when to stop.
//
// Events named in the present tense come before the operation. They return false to stop watching: the instruction is
// then not executed by the loop, its frame and every frame below the root goes on in CPython's own interpreter, and no
// further event comes. With an exception set, that exception is raised in place of the instruction (but not by enters
// and resumes). Events named in the past tense come after the operation has succeeded. Whatever an operation calls back
// (a property, __getattr__, __add__, a generator that is iterated) is watched frame by frame in between. References are
// borrowed.
#pragma once

#include <Python.h>

#include <span>

namespace saker::watch {

// Truth: a conditional jump asks, but not of True, False and None.
enum class Unary { Negative, Positive, Invert, Not, Truth };

// In the order of CPython's BINARY_OP; `inplace` is told apart.
enum class Binary {
  Add,
  And,
  FloorDivide,
  Lshift,
  MatrixMultiply,
  Multiply,
  Remainder,
  Or,
  Power,
  Rshift,
  Subtract,
  TrueDivide,
  Xor
};

// Arguments as in a vectorcall: positional ones, then those of the keywords in `names` (a tuple or nullptr).
struct Arguments {
  PyObject* const* values = nullptr;
  size_t positional = 0;
  PyObject* names = nullptr;
};

enum class Skip : uint8_t {
  No,
  Frame,  // it runs in CPython's interpreter; what it calls is asked about in turn
  All,    // it and all that it calls runs there
};

// Why no further event comes, though the observer has not stopped watching.
enum class Unseen : uint8_t {
  DeepStack,    // the C stack is nearly used up
  Traced,       // a frame is traced or monitored
  Instruction,  // the loop does not know an instruction
};

class Observer {
 public:
  virtual ~Observer() = default;

  // Is a frame of this code not worth watching? `passed` is the code of the frame that calls it, where that one is not
  // watched itself (Skip::Frame), and nullptr otherwise.
  virtual Skip skips(PyCodeObject* code, PyCodeObject* passed) {
    (void)code, (void)passed;
    return Skip::No;
  }
  // A frame is entered: a call of a function, or the first step of a generator's body. `function` may be nullptr.
  virtual bool enters(PyObject* function, PyCodeObject* code) = 0;
  // It is left with a value, or with an exception that is set (value is nullptr).
  virtual void left(PyCodeObject* code, PyObject* value) = 0;
  // A generator that is left by a yield is suspended, and later resumed. In between, other frames come and go.
  virtual void suspended(PyCodeObject* code, PyObject* value) {
    (void)code;
    (void)value;
  }
  virtual bool resumes(PyCodeObject* code) {
    (void)code;
    return true;
  }
  virtual void madeFunction(PyObject* function) = 0;

  // Names. `value` is what was found; where it stood is for the observer to know.
  virtual bool readsGlobal(PyObject* globals, PyObject* builtins, PyObject* name, PyObject* value) = 0;
  virtual bool writesGlobal(PyObject* globals, PyObject* name, PyObject* valueOrNull) = 0;
  virtual bool readsCell(PyObject* cell, PyObject* value) = 0;
  virtual bool writesCell(PyObject* cell, PyObject* valueOrNull) = 0;
  // Class bodies, exec: LOAD_NAME and its kin.
  virtual bool readsName(PyObject* locals, PyObject* globals, PyObject* builtins, PyObject* name) = 0;

  // Attributes. A method that is called at once is read as the plain function, where it is found on the type.
  virtual bool readsAttribute(PyObject* owner, PyObject* name) = 0;
  virtual void readAttribute(PyObject* owner, PyObject* name, PyObject* value) = 0;
  virtual bool writesAttribute(PyObject* owner, PyObject* name, PyObject* valueOrNull) = 0;
  // A special method is looked up on the type: __enter__ and __exit__ of `with`, __aenter__ and so on.
  virtual bool readsSpecial(PyObject* owner, PyObject* name) = 0;

  // Calls. A bound method is taken apart: `callable` is its function and self the first argument, where the loop does
  // so.
  // The arguments of a Python function whose frame was entered are the frame's own: then called() has none.
  virtual bool calls(PyObject* callable, const Arguments& arguments) = 0;
  virtual void called(PyObject* callable, const Arguments& arguments, PyObject* result) = 0;
  // Before calls(): what is to be called in its place; borrowed.
  virtual PyObject* instead(PyObject* callable) { return callable; }
  // After calls(): what it does inside is not the program's, and runs unwatched between
  // hides(true) and hides(false).
  virtual bool hidden(PyObject* callable) {
    (void)callable;
    return false;
  }
  virtual void hides(bool on) { (void)on; }
  // f(*args, **kwargs), before they are turned into a tuple and a dict; calledSpread() has these two.
  virtual bool callsSpread(PyObject* callable, PyObject* args, PyObject* kwargsOrNull) = 0;
  virtual void calledSpread(PyObject* callable, PyObject* args, PyObject* kwargsOrNull, PyObject* result) = 0;

  // Operators.
  virtual bool unary(Unary op, PyObject* operand) = 0;
  virtual void unaryDone(Unary op, PyObject* operand, PyObject* result) {  // not of Not and Truth
    (void)op;
    (void)operand;
    (void)result;
  }
  virtual bool binary(Binary op, bool inplace, PyObject* left, PyObject* right) = 0;
  virtual void binaryDone(Binary op, bool inplace, PyObject* left, PyObject* right, PyObject* result) = 0;
  virtual bool compares(int op, PyObject* left, PyObject* right) = 0;  // Py_LT ...
  virtual void compared(PyObject* left, PyObject* right, PyObject* result) {
    (void)left;
    (void)right;
    (void)result;
  }
  virtual bool contains(PyObject* container, PyObject* item) = 0;
  // left is right. Comparisons with None that a jump makes are not told.
  virtual bool identifies(PyObject* left, PyObject* right) {
    (void)left;
    (void)right;
    return true;
  }
  virtual bool formats(PyObject* value, int conversion, PyObject* specOrNull) = 0;  // conversion: 0, 's', 'r', 'a'

  // Containers.
  virtual bool readsItem(PyObject* container, PyObject* key) = 0;
  virtual void readItem(PyObject* container, PyObject* key, PyObject* value) = 0;
  virtual bool writesItem(PyObject* container, PyObject* key, PyObject* valueOrNull) = 0;
  virtual bool iterates(PyObject* iterable) = 0;  // GET_ITER, GET_YIELD_FROM_ITER
  virtual void iterated(PyObject* iterable, PyObject* iterator) = 0;
  virtual bool advances(PyObject* iterator) = 0;                         // FOR_ITER, SEND
  virtual void advanced(PyObject* iterator, PyObject* valueOrNull) = 0;  // nullptr: at its end
  // All elements are read: unpacking, LIST_EXTEND, SET_UPDATE, DICT_UPDATE, DICT_MERGE, GET_LEN, pattern matching.
  // `into` is the container that takes them, if any.
  virtual bool spreads(PyObject* iterable, PyObject* intoOrNull) = 0;
  // The elements of an exact tuple or list that unpacking has put on the stack need no event; those of another iterable
  // do not either. LIST_APPEND, SET_ADD, MAP_ADD of comprehensions write to containers made by the loop and are not
  // told as writes.

  // It becomes an element of a new set or a key of a new dict, by a display or a comprehension.
  virtual bool keys(PyObject* key) {
    (void)key;
    return true;
  }

  // match statements: what the pattern looks at (MATCH_CLASS gives the class and its attribute names, else nullptr).
  virtual bool matches(PyObject* subject, PyObject* classOrNull, PyObject* names) = 0;

  // import x, from x import y.
  virtual bool imports(PyObject* name, PyObject* fromlist, PyObject* level) = 0;
  virtual void imported(PyObject* name, PyObject* module) = 0;
  virtual bool importsFrom(PyObject* module, PyObject* name) = 0;
  virtual void importedFrom(PyObject* module, PyObject* name, PyObject* value) = 0;

  // An exception is raised by the program (RAISE_VARARGS), or matched against classes (CHECK_EXC_MATCH,
  // CHECK_EG_MATCH).
  virtual bool raises(PyObject* exceptionOrNull, PyObject* causeOrNull) = 0;
  virtual bool catches(PyObject* exception, PyObject* classes) = 0;

  // A tuple or a frozen set that stands in the code is loaded: the same object may be found elsewhere.
  virtual void constant(PyObject* object) { (void)object; }

  // The loop cannot execute an instruction and hands the frame over to CPython, or it cannot watch at all (tracing,
  // monitoring, the stack is nearly used up): what happens below is not seen.
  virtual void unseen(Unseen why) = 0;

  // An event has thrown a C++ exception: no further one comes.
  virtual void failed(const char* what) { (void)what; }

  // An event was refused. An observer that must not let the program go on without it sets an exception, here as in
  // unseen: it is raised in place of the instruction.
  virtual void refused() {}
  // Exceptions pass by their handlers.
  virtual bool abandons() { return false; }
};

}  // namespace saker::watch
