// Calls, and the making of functions.
#include "watch/errors.h"
#include "watch/handlers.h"
#include "watch/loop.h"

namespace saker::watch {

namespace {

// f(*arguments) wants an iterable.
bool checkIterable(PyObject* function, PyObject* arguments) {
  if (Py_TYPE(arguments)->tp_iter != nullptr || PySequence_Check(arguments) != 0) return true;
  PyErr_Clear();
  const Ref text = Ref::steal(_PyObject_FunctionStr(function));
  if (text) {
    PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", text.get(),
                 Py_TYPE(arguments)->tp_name);
  }
  return false;
}

// Turns the operand in `slot` into what a call takes: a dict.
bool makeDict(Machine& m, PyObject*& slot) {
  if (PyDict_CheckExact(slot)) return true;
  Ref dict = Ref::steal(PyDict_New());
  if (!dict) return false;
  if (_PyDict_MergeEx(dict.get(), slot, 2) < 0) {
    keywordsError(m.top(3), slot);
    return false;
  }
  PyObject* before = slot;
  slot = dict.release();
  Py_DECREF(before);
  return true;
}

bool makeTuple(PyObject* function, PyObject*& slot) {
  if (PyTuple_CheckExact(slot)) return true;
  if (!checkIterable(function, slot)) return false;
  PyObject* tuple = PySequence_Tuple(slot);
  if (tuple == nullptr) return false;
  PyObject* before = slot;
  slot = tuple;
  Py_DECREF(before);
  return true;
}

// A call whose inside is nobody's business.
class Hidden {
 public:
  explicit Hidden(Observer& observer) : observer_(observer) { observer_.hides(true); }
  ~Hidden() { observer_.hides(false); }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;

 private:
  Observer& observer_;
  Pause pause_;
};

PyObject* callHidden(Machine& m, PyObject* callable, PyObject* const* arguments, size_t positional, PyObject* names) {
  const Hidden hidden(m.observer());
  return PyObject_Vectorcall(callable, arguments, positional | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
}

PyObject* callHidden(Machine& m, PyObject* callable, PyObject* arguments, PyObject* keywords) {
  const Hidden hidden(m.observer());
  return PyObject_Call(callable, arguments, keywords);
}

}  // namespace

void keywordsError(PyObject* function, PyObject* keywords) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    const Ref text = Ref::steal(_PyObject_FunctionStr(function));
    if (text) {
      PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", text.get(),
                   Py_TYPE(keywords)->tp_name);
    }
    return;
  }
  if (!PyErr_ExceptionMatches(PyExc_KeyError)) return;
  // The merge says so of a key that comes twice: the error's only argument is the key.
#if PY_VERSION_HEX >= 0x030c0000
  Ref raised = Ref::steal(takeRaised());
  PyObject* arguments = reinterpret_cast<PyBaseExceptionObject*>(raised.get())->args;
  const bool merged = arguments != nullptr && PyTuple_Check(arguments) && PyTuple_GET_SIZE(arguments) == 1;
  if (!merged) {
    setRaised(raised.release());
    return;
  }
#else
  // 3.11 looks at what was set before it is an instance; it is one already where another exception is being handled.
  PyObject* type = nullptr;
  PyObject* arguments = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &arguments, &traceback);
  if (arguments == nullptr || !PyTuple_Check(arguments) || PyTuple_GET_SIZE(arguments) != 1) {
    PyErr_Restore(type, arguments, traceback);
    return;
  }
  const Ref ownedType = Ref::steal(type);
  const Ref ownedArguments = Ref::steal(arguments);
  const Ref ownedTraceback = Ref::steal(traceback);
#endif
  const Ref text = Ref::steal(_PyObject_FunctionStr(function));
  if (!text) return;
  PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", text.get(),
               PyTuple_GET_ITEM(arguments, 0));
}

// Operands: function, self or nullptr, callable; then the arguments, those of keywords last.
Flow call(Machine& m) {
  PyObject* names = m.at->extra < 0 ? nullptr : m.constant(m.at->extra);
  PyObject** arguments = m.sp - m.arg();
  PyObject* callable = arguments[-1];
  bool method = arguments[-2] != nullptr;
  if (!method && Py_IS_TYPE(callable, &PyMethod_Type)) {
    PyObject* self = PyMethod_GET_SELF(callable);
    arguments[-2] = newRef(PyMethod_GET_FUNCTION(callable));
    arguments[-1] = newRef(self);
    Py_DECREF(callable);
    method = true;
  }
  if (method) {
    --arguments;
    callable = arguments[-1];
  }
  if (PyObject* other = m.observer().instead(callable); other != callable) {
    Py_SETREF(arguments[-1], newRef(other));
    callable = other;
  }
  const auto count = static_cast<size_t>(m.sp - arguments);
  const size_t positional = count - (names == nullptr ? 0 : static_cast<size_t>(PyTuple_GET_SIZE(names)));
  const Arguments told{.values = arguments, .positional = positional, .names = names};
  if (!m.observer().calls(callable, told)) return Flow::Stop;
  const bool hidden = m.observer().hidden(callable);
  const bool python = !hidden && Py_IS_TYPE(callable, &PyFunction_Type);
  if (python) {
    m.callee = callable;
    m.given = arguments;
  }
  PyObject* result = hidden
                         ? callHidden(m, callable, arguments, positional, names)
                         : PyObject_Vectorcall(callable, arguments, positional | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
  const bool given = python && m.callee == nullptr;
  m.callee = nullptr;
  if (result != nullptr) m.observer().called(callable, given ? Arguments{} : told, result);
  Py_DECREF(callable);
  if (!given) {
    for (size_t i = 0; i < count; ++i) Py_DECREF(arguments[i]);
  }
  m.sp = arguments - (method ? 1 : 2);
  if (result == nullptr) return Flow::Error;
  m.push(result);
  return m.poll();
}

// Operands: nullptr, callable, arguments, and with `arg` & 1 keywords.
Flow callSpread(Machine& m) {
  const bool keywords = (m.arg() & 1) != 0;
  PyObject** operands = m.sp - (keywords ? 3 : 2);
  PyObject* callable = m.observer().instead(operands[0]);
  if (callable != operands[0]) Py_SETREF(operands[0], newRef(callable));
  if (!m.observer().callsSpread(callable, operands[1], keywords ? operands[2] : nullptr)) return Flow::Stop;
  if (keywords && !makeDict(m, operands[2])) return Flow::Error;
  if (!makeTuple(callable, operands[1])) return Flow::Error;
  PyObject* dict = keywords ? operands[2] : nullptr;
  PyObject* result = m.observer().hidden(callable) ? callHidden(m, callable, operands[1], dict)
                                                   : PyObject_Call(callable, operands[1], dict);
  if (result != nullptr) m.observer().calledSpread(callable, operands[1], dict, result);
  m.consume(keywords ? 3 : 2);
  if (result == nullptr) return Flow::Error;
  m.top() = result;  // in the place of the nullptr
  return m.poll();
}

Flow makeFunction(Machine& m) {
  PyObject* code = m.top();
  PyObject* made = PyFunction_New(code, m.frame.globals);
  m.drop();
  if (made == nullptr) return Flow::Error;
  auto* function = reinterpret_cast<PyFunctionObject*>(made);
  if ((m.arg() & 8) != 0) function->func_closure = m.pop();
  if ((m.arg() & 4) != 0) function->func_annotations = m.pop();
  if ((m.arg() & 2) != 0) function->func_kwdefaults = m.pop();
  if ((m.arg() & 1) != 0) function->func_defaults = m.pop();
#if PY_VERSION_HEX >= 0x030c0000
  function->func_version = reinterpret_cast<PyCodeObject*>(function->func_code)->co_version;
#endif
  m.push(made);
  m.observer().madeFunction(made);
  return Flow::Next;
}

// The interactive prompt shows the value of an expression.
Flow printExpression(Machine& m) {
  PyObject* display = PySys_GetObject("displayhook");
  if (display == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "lost sys.displayhook");
    m.drop();
    return Flow::Error;
  }
  PyObject* arguments[] = {m.top()};
  const Arguments told{.values = arguments, .positional = 1, .names = nullptr};
  if (!m.observer().calls(display, told)) return Flow::Stop;
  const Ref result = Ref::steal(PyObject_CallOneArg(display, m.top()));
  if (result) m.observer().called(display, told, result.get());
  m.drop();
  if (!result) return Flow::Error;
  if (m.at->extra != 0) m.push(newRef(Py_None));
  return Flow::Next;
}

}  // namespace saker::watch
