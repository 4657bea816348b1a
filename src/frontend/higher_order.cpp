#include "frontend/higher_order.h"

#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "capture/tape.h"
#include "capture/user_code.h"
#include "frontend/kinds.h"
#include "frontend/recorder.h"
#include "host/objects.h"
#include "watch/loop.h"
#include "watch/once.h"
#include "watch/ref.h"

namespace saker::frontend::higher_order {

namespace {

// The call that is watched, while the operator is called.
struct Waiting {
  Recorder* recorder;
  const watch::Pause* pause;
};

thread_local Recorder* recorderOfThread = nullptr;
thread_local const Waiting* waiting = nullptr;

// A function that the operator was given.
PyObject* runBody(PyObject* function, PyObject* args, PyObject* kwargs) {
  const Waiting* outer = std::exchange(waiting, nullptr);
  if (!outer) return PyObject_Call(function, args, kwargs);
  PyObject* result = nullptr;
  {
    watch::Resume resume(*outer->pause);
    bool goesOn = outer->recorder->callsSpread(function, args, kwargs);
    if (!goesOn) watch::stop();
    if (goesOn || !PyErr_Occurred()) result = PyObject_Call(function, args, kwargs);
  }
  waiting = outer;
  return result;
}

PyMethodDef bodyMethod = {"body", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(runBody)),
                          METH_VARARGS | METH_KEYWORDS, nullptr};

PyObject* implementation() {
  static constinit watch::Once<PyObject*> found;
  return found.get([] { return watch::importedAttribute("saker._control_flow", "call"); });
}

// torch.cond, which loads PyTorch's compiler before it calls its operator.
PyObject* condFunction() {
  static constinit watch::Once<PyObject*> found;
  return found.get([] { return watch::importedAttribute("torch._higher_order_ops.cond", "cond"); });
}

// The same, watched where it is called, if it is a function, and those in a tuple. A new reference.
PyObject* watched(PyObject* arg) {
  if (PyCallable_Check(arg) && !isTensor(arg)) return PyCFunction_New(&bodyMethod, arg);
  if (!PyTuple_CheckExact(arg)) return Py_NewRef(arg);
  Ref items = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(arg)));
  for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(arg); ++i) {
    PyObject* item = watched(PyTuple_GET_ITEM(arg, i));
    if (!item) return nullptr;
    PyTuple_SET_ITEM(items.get(), i, item);
  }
  return items.release();
}

// The arguments, with functions among them watched where they are called; an operator's name comes first.
Ref givenTo(PyObject* callee, PyObject* args) {
  Py_ssize_t count = PyTuple_GET_SIZE(args), first = callee == implementation() ? 0 : 1;
  Ref given = Ref::steal(PyTuple_New(count + first));
  if (first) {
    PyObject* name = callee == condFunction() ? PyUnicode_FromString("cond") : PyObject_GetAttrString(callee, "_name");
    if (!name) return {};
    PyTuple_SET_ITEM(given.get(), 0, name);
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = watched(PyTuple_GET_ITEM(args, i));
    if (!item) return {};
    PyTuple_SET_ITEM(given.get(), i + first, item);
  }
  return given;
}

// The same for those given by name.
Ref givenTo(PyObject* kwargs) {
  if (!kwargs) return {};
  Ref given = Ref::steal(PyDict_New());
  Py_ssize_t at = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (given && PyDict_Next(kwargs, &at, &key, &value)) {
    Ref item = Ref::steal(watched(value));
    if (!item || PyDict_SetItem(given.get(), key, item.get()) < 0) return {};
  }
  return given;
}

void raiseChanges(PyObject* name, const std::string& what) {
  Ref error = Ref::steal(watch::importedAttribute("saker.errors", "BodyError"));
  if (!error) return;
  std::string text = "a function that it was given changes objects or tensors from outside (" + what +
                     "); return the new values instead";
  Ref made = Ref::steal(PyObject_CallFunction(error.get(), "Os", name, text.c_str()));
  if (made) PyErr_SetObject(error.get(), made.get());
}

// Does a question that is answered in Python, about `subject` if there is one, have the answer True?
bool isSo(PyObject* question, PyObject* subject) {
  watch::Pause unwatched;
  Ref answer = question ? Ref::steal(PyObject_CallFunctionObjArgs(question, subject, nullptr)) : Ref();
  PyErr_Clear();
  return answer && answer.get() == Py_True;
}

// What saker._control_flow says of an operator, by its name.
class Answers {
 public:
  constexpr explicit Answers(const char* function) : function_(function) {}
  bool operator()(PyObject* name) {
    return isSo(found_.get([&] { return watch::importedAttribute("saker._control_flow", function_); }), name);
  }

 private:
  const char* function_;
  watch::Once<PyObject*> found_;
};
constinit Answers mayChange("may_change"), mayWrite("may_write"), knows("knows");

PyObject* callOperator(PyObject* callee, PyObject* args, PyObject* kwargs) {
  Recorder* recorder = std::exchange(recorderOfThread, nullptr);
  if (!recorder || recorder->stopped()) return PyObject_Call(callee, args, kwargs);
  Ref given = givenTo(callee, args), named = givenTo(kwargs);
  if (!given || (kwargs && !named)) return nullptr;
  Recorder::Mark mark = recorder->mark();
  Ref result;
  {
    watch::Pause pause;
    Waiting here{recorder, &pause};
    const Waiting* before = std::exchange(waiting, &here);
    result = Ref::steal(PyObject_Call(implementation(), given.get(), named.get()));
    waiting = before;
  }
  if (result && !recorder->stopped()) recorder->forgetRestored(mark);
  PyObject* name = PyTuple_GET_ITEM(given.get(), 0);
  if (recorder->stopped()) {
    tracing::leaveTape(recorder->tape());
  } else if (result && recorder->changedSince(mark) && !mayChange(name) &&
             (recorder->changedSince(mark, /*tensors=*/false) || !mayWrite(name))) {
    raiseChanges(name, recorder->changeSince(mark));
    return nullptr;
  }
  return result.release();
}

PyMethodDef operatorMethod = {"higher_order", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(callOperator)),
                              METH_VARARGS | METH_KEYWORDS, nullptr};

PyTypeObject* operatorClass() {
  static constinit watch::Once<PyObject*> found;
  return reinterpret_cast<PyTypeObject*>(
      found.get([] { return watch::importedAttribute("torch._ops", "HigherOrderOperator"); }));
}

bool isKnown(PyObject* op) {
  Ref name = Ref::steal(PyObject_GetAttrString(op, "_name"));
  return name && knows(name.get());
}

// The operator that calls a torch.autograd.Function inside of torch.func's transforms.
bool callsFunctionInTransform(PyObject* op) {
  static constinit watch::Once<PyObject*> found;
  return op == found.get([] {
    return watch::importedAttribute("torch._functorch.autograd_function", "custom_function_call");
  });
}

// Python functions that take the place of the operator, and of a Function's apply where that is C code, a new
// reference. They are watched. nullptr: there is another transform than vmap.
PyObject* functionInVmap() {
  static constinit watch::Once<PyObject*> question, standIn;
  PyObject* asked = question.get([] { return watch::importedAttribute("saker._vmapped", "only_vmaps"); });
  if (!isSo(asked, nullptr)) return nullptr;
  return Py_XNewRef(standIn.get([] { return watch::importedAttribute("saker._vmapped", "call"); }));
}

PyObject* applyInVmap(PyObject* function) {
  static constinit watch::Once<PyObject*> question, standIn;
  PyObject* asked = question.get([] { return watch::importedAttribute("saker._vmapped", "may_apply"); });
  if (!isSo(asked, function)) return nullptr;
  PyObject* apply = standIn.get([] { return watch::importedAttribute("saker._vmapped", "apply"); });
  return apply ? PyMethod_New(apply, function) : nullptr;
}

}  // namespace

bool inTransform() { return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode); }

bool appliesFunction(PyObject* callable) {
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  return self && PyType_Check(self) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(self), functionClass()) &&
         nameOf(callable) == "apply";
}

PyObject* insteadOf(PyObject* callable) {
  if (callable == implementation() || callable == condFunction()) return PyCFunction_New(&operatorMethod, callable);
  if (PyCFunction_Check(callable)) {
    if (appliesFunction(callable)) tracing::noteApplied();
    bool transformed = inTransform() && appliesFunction(callable);
    return transformed ? applyInVmap(PyCFunction_GET_SELF(callable)) : nullptr;
  }
  if (PyFunction_Check(callable) || PyType_Check(callable)) return nullptr;
  if (!PyType_IsSubtype(Py_TYPE(callable), operatorClass())) return nullptr;
  if (callsFunctionInTransform(callable)) {
    tracing::noteApplied();
    return functionInVmap();
  }
  return isKnown(callable) ? PyCFunction_New(&operatorMethod, callable) : nullptr;
}

PyObject* insteadOfApply(PyObject* callable) {
  static constinit watch::Once<PyObject*> found;
  if (!appliesFunction(callable) || inTransform()) return nullptr;
  PyObject* apply = found.get([] { return watch::importedAttribute("saker._applied", "apply"); });
  return apply ? PyMethod_New(apply, PyCFunction_GET_SELF(callable)) : nullptr;
}

PyObject* insteadOfInnerApply(PyObject* callable) {
  static constinit watch::Once<PyObject*> found;
  if (!appliesFunction(callable) || inTransform() || c10::GradMode::is_enabled()) return nullptr;
  PyObject* apply = found.get([] { return watch::importedAttribute("saker._applied", "inside"); });
  return apply ? PyMethod_New(apply, PyCFunction_GET_SELF(callable)) : nullptr;
}

PyObject* insteadOfSeed(PyObject* callable) {
  if (!PyFunction_Check(callable) || at::globalContext().hasCUDA()) return nullptr;
  for (const char* name : {"get_rng_state", "set_rng_state", "manual_seed"}) {
    if (isPartOf(callable, name, "torch/random.py")) return watch::importedAttribute("saker._called_operators", name);
  }
  return nullptr;
}

bool isOperator(PyObject* callable) {
  return PyCFunction_Check(callable) && reinterpret_cast<PyCFunctionObject*>(callable)->m_ml == &operatorMethod;
}

bool calls(Recorder& recorder) {
  recorderOfThread = &recorder;
  return true;
}

}  // namespace saker::frontend::higher_order
