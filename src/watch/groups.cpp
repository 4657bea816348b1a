// except*.
#include "watch/handlers.h"
#include "watch/once.h"

namespace saker::watch {

namespace {

bool isGroup(PyObject* exception) {
  return PyObject_TypeCheck(exception, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup)) != 0;
}

bool validStarClasses(PyObject* classes) {
  if (!validClasses(classes)) return false;
  int group = 0;
  if (PyTuple_Check(classes)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes) && group == 0; ++i) {
      group = PyObject_IsSubclass(PyTuple_GET_ITEM(classes, i), PyExc_BaseExceptionGroup);
    }
  } else {
    group = PyObject_IsSubclass(classes, PyExc_BaseExceptionGroup);
  }
  if (group > 0) {
    PyErr_SetString(PyExc_TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.");
  }
  return group == 0;
}

PyObject* makeGroup(PyObject* exceptions) {
  return PyObject_CallFunction(PyExc_BaseExceptionGroup, "sO", "", exceptions);
}

// Splits an exception into what matches and the rest; None where there is nothing.
bool split(PyObject* exception, PyObject* classes, Ref& match, Ref& rest) {
  match = Ref::steal(newRef(Py_None));
  rest = Ref::steal(newRef(Py_None));
  if (exception == Py_None) return true;
  if (PyErr_GivenExceptionMatches(exception, classes)) {
    if (isGroup(exception)) {
      match = Ref::steal(newRef(exception));
      return true;
    }
    const Ref only = Ref::steal(PyTuple_Pack(1, exception));
    match = Ref::steal(only ? makeGroup(only.get()) : nullptr);
    return static_cast<bool>(match);
  }
  if (!isGroup(exception)) {
    rest = Ref::steal(newRef(exception));
    return true;
  }
  const Ref pair = Ref::steal(PyObject_CallMethod(exception, "split", "(O)", classes));
  if (!pair) return false;
  match = Ref::steal(newRef(PyTuple_GET_ITEM(pair.get(), 0)));
  rest = Ref::steal(newRef(PyTuple_GET_ITEM(pair.get(), 1)));
  return true;
}

#if PY_VERSION_HEX >= 0x030c0000
extern "C" PyAPI_FUNC(PyObject*) _PyExc_PrepReraiseStar(PyObject* original, PyObject* exceptions);
PyObject* prepared(PyObject* original, PyObject* exceptions) { return _PyExc_PrepReraiseStar(original, exceptions); }
#else
// 3.11 does not export the function that puts together what except* clauses have left over.

// A part of the group that was caught has its notes, traceback, context and cause; a new exception does not.
bool sameOrigin(PyObject* exception, PyObject* original) {
  auto* one = reinterpret_cast<PyBaseExceptionObject*>(exception);
  auto* other = reinterpret_cast<PyBaseExceptionObject*>(original);
  return one->notes == other->notes && one->traceback == other->traceback && one->cause == other->cause &&
         one->context == other->context;
}

bool collectLeaves(PyObject* exception, PyObject* leaves) {
  if (!isGroup(exception)) {
    const Ref id = Ref::steal(PyLong_FromVoidPtr(exception));
    return id && PySet_Add(leaves, id.get()) == 0;
  }
  const Ref parts = Ref::steal(PyObject_GetAttrString(exception, "exceptions"));
  if (!parts) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts.get()); ++i) {
    if (!collectLeaves(PyTuple_GET_ITEM(parts.get(), i), leaves)) return false;
  }
  return true;
}

// Groups are split by Python functions only, not by other callables: one that knows the leaves.
PyObject* leafTest(PyObject* leaves) {
  static constinit Once<PyObject*> made;
  PyObject* make = made.get([] {
    const Ref names = Ref::steal(PyDict_New());
    if (!names || PyDict_SetItemString(names.get(), "__builtins__", PyEval_GetBuiltins()) < 0)
      return (PyObject*)nullptr;
    return PyRun_String("lambda ids: lambda e: not isinstance(e, BaseExceptionGroup) and id(e) in ids", Py_eval_input,
                        names.get(), names.get());
  });
  return make == nullptr ? nullptr : PyObject_CallOneArg(make, leaves);
}

// The part of `original` whose leaves are those of `kept`; None if there are none.
PyObject* projection(PyObject* original, PyObject* kept) {
  const Unwatched unwatched;
  const Ref leaves = Ref::steal(PySet_New(nullptr));
  if (!leaves) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(kept); ++i) {
    if (!collectLeaves(PyList_GET_ITEM(kept, i), leaves.get())) return nullptr;
  }
  const Ref test = Ref::steal(leafTest(leaves.get()));
  const Ref subgroup = Ref::steal(test ? PyObject_GetAttrString(PyExc_BaseExceptionGroup, "subgroup") : nullptr);
  return subgroup ? PyObject_CallFunctionObjArgs(subgroup.get(), original, test.get(), nullptr) : nullptr;
}

PyObject* prepared(PyObject* original, PyObject* exceptions) {
  const Py_ssize_t count = PyList_GET_SIZE(exceptions);
  if (count == 0) return newRef(Py_None);
  if (!isGroup(original)) return newRef(PyList_GET_ITEM(exceptions, 0));  // a lone exception: at most one clause ran
  const Ref raised = Ref::steal(PyList_New(0));
  const Ref reraised = Ref::steal(PyList_New(0));
  if (!raised || !reraised) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* exception = PyList_GET_ITEM(exceptions, i);
    if (exception == Py_None) continue;
    PyObject* list = sameOrigin(exception, original) ? reraised.get() : raised.get();
    if (PyList_Append(list, exception) < 0) return nullptr;
  }
  Ref rest = Ref::steal(projection(original, reraised.get()));
  if (!rest || PyList_GET_SIZE(raised.get()) == 0) return rest.release();
  if (rest.get() != Py_None && PyList_Append(raised.get(), rest.get()) < 0) return nullptr;
  if (PyList_GET_SIZE(raised.get()) == 1) return newRef(PyList_GET_ITEM(raised.get(), 0));
  return makeGroup(raised.get());
}
#endif

}  // namespace

Flow matchExceptionGroup(Machine& m) {
  PyObject* classes = m.top();
  PyObject* raised = m.top(2);
  if (!m.observer().catches(raised, classes)) return Flow::Stop;
  const Ref owned = Ref::steal(m.pop());
  if (!validStarClasses(classes)) return Flow::Error;
  Ref match;
  Ref rest;
  if (!split(raised, classes, match, rest)) return Flow::Error;
  if (match.get() != Py_None) {
    PyErr_SetHandledException(match.get());
    m.top() = rest.release();
    Py_DECREF(raised);
  }
  m.push(match.release());
  return Flow::Next;
}

// Operands: the exception that was caught, the list of what its clauses raised or left over.
Flow prepareReraise(Machine& m) { return m.replace(2, prepared(m.top(2), m.top())); }

}  // namespace saker::watch
