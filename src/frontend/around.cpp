#include "frontend/around.h"

#include "capture/tape.h"
#include "frontend/compiled.h"
#include "frontend/kinds.h"
#include "frontend/recorder.h"
#include "host/kept_error.h"
#include "watch/loop.h"
#include "watch/once.h"

namespace saker::frontend::around {

namespace {

// --- hooks on what is saved ---

PyObject* callUnwatched(PyObject* hook, PyObject* args) {
  watch::Pause pause;
  tracing::TapeScope untaped(nullptr);
  return PyObject_CallObject(hook, args);
}

PyObject* pushUnwatched(PyObject*, PyObject* args) {
  static PyMethodDef hidden = {"hook", callUnwatched, METH_VARARGS, nullptr};
  PyObject *pack = nullptr, *unpack = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &pack, &unpack)) return nullptr;
  Ref first = Ref::steal(PyCFunction_New(&hidden, pack));
  Ref second = Ref::steal(PyCFunction_New(&hidden, unpack));
  return first && second ? PyObject_CallFunctionObjArgs(push(), first.get(), second.get(), nullptr) : nullptr;
}

// --- checkpoints ---

// The call that is watched, while PyTorch's own code runs in it.
struct Waiting {
  Recorder* recorder;
  tracing::Tape* tape;
  const watch::Pause* pause;
};

thread_local Recorder* recorderOfThread = nullptr;
thread_local const Waiting* waiting = nullptr;

// The function that is checkpointed: watched where it is called first, as it is when a backward pass calls it again.
PyObject* runInside(PyObject* function, PyObject* args, PyObject* kwargs) {
  const Waiting* outer = std::exchange(waiting, nullptr);
  if (!outer) {
    Inside inside;
    return PyObject_Call(function, args, kwargs);
  }
  watch::Resume resume(*outer->pause);
  tracing::TapeScope taped(outer->tape);
  if (!outer->recorder->callsSpread(function, args, kwargs)) {
    watch::stop();
    if (PyErr_Occurred()) return nullptr;
  }
  return PyObject_Call(function, args, kwargs);
}

// Finding out where the program is runs Python.
void spoil(Recorder& recorder, Why why) {
  const KeptError kept;
  recorder.tape().spoil(why);
}

bool isTrue(PyObject* kwargs, const char* name, bool otherwise) {
  PyObject* given = kwargs ? PyDict_GetItemString(kwargs, name) : nullptr;
  return given ? given == Py_True : otherwise;
}

// Nothing: it can be recorded.
std::optional<Why> refusal(PyObject* args, PyObject* kwargs) {
  PyObject* reentrant = kwargs ? PyDict_GetItemString(kwargs, "use_reentrant") : nullptr;
  if (PyTuple_GET_SIZE(args) < 1) return Why::CheckpointWithoutFunction;
  if (reentrant != Py_False) return Why::CheckpointReentrant;
  if (!isTrue(kwargs, "preserve_rng_state", true)) return Why::CheckpointWithoutState;
  if (PyDict_GetItemString(kwargs, "context_fn")) return Why::CheckpointContext;
  return isTrue(kwargs, "debug", false) ? std::optional(Why::CheckpointDebug) : std::nullopt;
}

PyObject* wrapped() {
  static constinit watch::Once<PyObject*> function;
  return function.get([] {
    Ref outer = Ref::steal(watch::importedAttribute("torch.utils.checkpoint", "checkpoint"));
    PyObject* inner = outer ? PyObject_GetAttrString(outer.get(), "__wrapped__") : nullptr;
    PyErr_Clear();
    return inner;
  });
}

PyObject* outerFunction() {
  static constinit watch::Once<PyObject*> found;
  PyObject* function = found.get([] { return watch::importedAttribute("torch.utils.checkpoint", "checkpoint"); });
  return function;
}

// With the arguments of a functools.partial in front.
bool merge(PyObject* partial, Ref& args, Ref& kwargs) {
  if (!partial) return true;
  Ref before = Ref::steal(PyObject_GetAttrString(partial, "args"));
  Ref keywords = Ref::steal(PyObject_GetAttrString(partial, "keywords"));
  Ref all = keywords ? Ref::steal(PyDict_Copy(keywords.get())) : Ref();
  if (!before || !all || (kwargs && PyDict_Update(all.get(), kwargs.get()) < 0)) return false;
  args = Ref::steal(PySequence_Concat(before.get(), args.get()));
  kwargs = all;
  return bool(args);
}

PyObject* checkpoint(PyObject* partial, PyObject* givenArgs, PyObject* givenKwargs) {
  static PyMethodDef inside = {"checkpointed", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(runInside)),
                               METH_VARARGS | METH_KEYWORDS, nullptr};
  Ref args = Ref::borrow(givenArgs), kwargs = Ref::borrow(givenKwargs);
  if (!merge(partial, args, kwargs)) return nullptr;
  Recorder* recorder = std::exchange(recorderOfThread, nullptr);
  if (!recorder || recorder->stopped()) return PyObject_Call(outerFunction(), args.get(), kwargs.get());
  std::optional<Why> why = refusal(args.get(), kwargs.get());
  if (tracing::currentTape() != &recorder->tape()) why = Why::AttemptCheckpoints;
  if (why) {
    recorder->stop(*why);
    if (PyErr_Occurred()) return nullptr;
    watch::stop();
    return PyObject_Call(outerFunction(), args.get(), kwargs.get());
  }
  Ref function = Ref::steal(PyCFunction_New(&inside, PyTuple_GET_ITEM(args.get(), 0)));
  Ref given = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(args.get())));
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(args.get()); ++i) {
    PyTuple_SET_ITEM(given.get(), i, Py_NewRef(PyTuple_GET_ITEM(args.get(), i)));
  }
  PyTuple_SET_ITEM(given.get(), 0, function.release());
  Recorder::Mark mark = recorder->mark();
  Ref result;
  {
    watch::Pause pause;
    tracing::TapeScope untaped(nullptr);
    Waiting here{recorder, &recorder->tape(), &pause};
    const Waiting* before = std::exchange(waiting, &here);
    result = Ref::steal(PyObject_Call(wrapped(), given.get(), kwargs.get()));
    waiting = before;
  }
  if (recorder->stopped()) {
    tracing::leaveTape();
  } else if (!result) {
    spoil(*recorder, Why::CheckpointFailed);
  } else if (recorder->changedSince(mark)) {
    spoil(*recorder, Why::CheckpointChanges);
  }
  return result.release();
}

PyMethodDef checkpointMethod = {"checkpoint", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(checkpoint)),
                                METH_VARARGS | METH_KEYWORDS, nullptr};

}  // namespace

// Flags that functions of one name set and tell; those of precision follow from each other.
std::string flagOf(PyObject* callable) {
  std::string name = nameOf(callable);
  if (name.find("precision") != std::string::npos || name.find("tf32") != std::string::npos) return "precision";
  for (std::string_view prefix : {"_set_", "_get_", "set_", "get_"}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

PyObject* push() {
  static constinit watch::Once<PyObject*> found;
  PyObject* function =
      found.get([] { return watch::importedAttribute("torch._C._autograd", "_push_saved_tensors_default_hooks"); });
  return function;
}

PyObject* hiddenPush() {
  static PyMethodDef method = {"_push_saved_tensors_default_hooks", pushUnwatched, METH_VARARGS, nullptr};
  static PyObject* const function = PyCFunction_New(&method, nullptr);
  return function;
}

bool isFlagSetter(PyObject* function) {
  PyObject* name = reinterpret_cast<PyFunctionObject*>(function)->func_name;
  if (PyUnicode_CompareWithASCIIString(name, "use_deterministic_algorithms") != 0) return false;
  static constinit watch::Once<PyObject*> found;
  PyObject* known = found.get([] { return watch::importedAttribute("torch", "use_deterministic_algorithms"); });
  return function == known;
}

PyObject* insteadOfCheckpoint(PyObject* callable) {
  static PyObject* const plain = PyCFunction_New(&checkpointMethod, nullptr);
  if (PyFunction_Check(callable)) {
    // Only its name is looked at until one is met: the module may never be loaded.
    auto* function = reinterpret_cast<PyFunctionObject*>(callable);
    if (PyUnicode_CompareWithASCIIString(function->func_qualname, "checkpoint") != 0) return nullptr;
    bool known = callable == outerFunction() || callable == wrapped();
    return known && wrapped() ? Py_NewRef(plain) : nullptr;
  }
  if (std::string_view(Py_TYPE(callable)->tp_name) != "functools.partial") return nullptr;
  Ref function = Ref::steal(PyObject_GetAttrString(callable, "func"));
  Ref inner = function ? Ref::steal(insteadOfCheckpoint(function.get())) : Ref();
  PyErr_Clear();
  return inner && PyFunction_Check(function.get()) ? PyCFunction_New(&checkpointMethod, callable) : nullptr;
}

bool isCheckpoint(PyObject* callable) {
  return PyCFunction_Check(callable) && reinterpret_cast<PyCFunctionObject*>(callable)->m_ml == &checkpointMethod;
}

bool checkpoints(Recorder& recorder, PyObject* callable, const watch::Arguments& arguments) {
  PyObject* partial = PyCFunction_GET_SELF(callable);
  if (partial && !recorder.calls(partial, arguments)) return false;
  recorderOfThread = &recorder;
  return true;
}

}  // namespace saker::frontend::around
