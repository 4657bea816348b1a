#include "frontend/checkpoints.h"

#include <c10/core/GradMode.h>

#include <optional>
#include <utility>

#include "aot/checkpoint_regions.h"
#include "capture/tape.h"
#include "capture/trace.h"
#include "frontend/checkpoint_choices.h"
#include "frontend/compiled.h"
#include "frontend/kinds.h"
#include "frontend/recorder.h"
#include "host/kept_error.h"
#include "watch/loop.h"
#include "watch/once.h"

namespace saker::frontend::checkpoints {

namespace {

// The call that is watched, while PyTorch's own code runs in it.
struct Waiting {
  Recorder* recorder;
  tracing::Tape* tape;  // nullptr: operators do not run
  const watch::Pause* pause;
  Choices* choices;
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
  std::optional<tracing::TapeScope> taped;
  if (outer->tape) taped.emplace(outer->tape);
  return callWatched(*outer->recorder, *outer->pause, function, args, kwargs);
}

PyMethodDef insideMethod = {"checkpointed", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(runInside)),
                            METH_VARARGS | METH_KEYWORDS, nullptr};

PyObject* makeContexts(PyObject* function, PyObject*) {
  return waiting ? waiting->choices->contexts(function, *waiting->pause) : PyObject_CallNoArgs(function);
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
  return found.get([] { return watch::importedAttribute("torch.utils.checkpoint", "checkpoint"); });
}

// What makes contexts of the program's own, a borrowed reference; nullptr: there is none.
PyObject* contextFunction(PyObject* kwargs) {
  static constinit watch::Once<PyObject*> found;
  PyObject* given = PyDict_GetItemString(kwargs, "context_fn");
  PyObject* none = found.get([] { return watch::importedAttribute("torch.utils.checkpoint", "noop_context_fn"); });
  return given == none ? nullptr : given;
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

// PyTorch's checkpoint, with the program's functions watched.
PyObject* callCheckpoint(const Waiting& here, PyObject* args, PyObject* kwargs) {
  static PyMethodDef contexts = {"context_fn", makeContexts, METH_NOARGS, nullptr};
  Ref function = Ref::steal(PyCFunction_New(&insideMethod, PyTuple_GET_ITEM(args, 0)));
  Ref given = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(args)));
  Ref options = Ref::steal(PyDict_Copy(kwargs));
  if (!function || !given || !options) return nullptr;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(args); ++i) {
    PyTuple_SET_ITEM(given.get(), i, Py_NewRef(PyTuple_GET_ITEM(args, i)));
  }
  PyTuple_SET_ITEM(given.get(), 0, function.release());
  if (PyObject* made = contextFunction(kwargs)) {
    Ref instead = Ref::steal(PyCFunction_New(&contexts, made));
    if (!instead || PyDict_SetItemString(options.get(), "context_fn", instead.get()) < 0) return nullptr;
  }
  tracing::TapeScope untaped(nullptr);
  const Waiting* before = std::exchange(waiting, &here);
  PyObject* result = PyObject_Call(wrapped(), given.get(), options.get());
  waiting = before;
  return result;
}

// The function alone, in the first of the contexts where eager mode would enter it.
PyObject* callInPlace(const Waiting& here, PyObject* args, PyObject* kwargs) {
  Ref function = Ref::steal(PyCFunction_New(&insideMethod, PyTuple_GET_ITEM(args, 0)));
  Ref given = Ref::steal(PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args)));
  Ref options = Ref::steal(PyDict_Copy(kwargs));
  if (!function || !given || !options) return nullptr;
  for (const char* name :
       {"use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state"}) {
    if (PyDict_GetItemString(options.get(), name)) PyDict_DelItemString(options.get(), name);
  }
  if (PyObject* made = contextFunction(kwargs)) {
    Ref contexts = Ref::steal(here.choices->contexts(made, *here.pause));
    if (!contexts) return nullptr;
  }
  bool chooses = here.choices->mode() && c10::GradMode::is_enabled();
  const Waiting* before = std::exchange(waiting, &here);
  PyObject* result = chooses ? here.choices->call(function.get(), given.get(), options.get())
                             : PyObject_Call(function.get(), given.get(), options.get());
  waiting = before;
  return result;
}

PyObject* checkpoint(PyObject* partial, PyObject* givenArgs, PyObject* givenKwargs) {
  Ref args = Ref::borrow(givenArgs), kwargs = Ref::borrow(givenKwargs);
  if (!merge(partial, args, kwargs)) return nullptr;
  Recorder* recorder = std::exchange(recorderOfThread, nullptr);
  if (!recorder || recorder->stopped()) return PyObject_Call(outerFunction(), args.get(), kwargs.get());
  bool runs = tracing::currentTape() == &recorder->tape();
  std::optional<Why> why = refusal(args.get(), kwargs.get());
  if (!why && !runs && !tracing::current()) why = Why::AttemptCheckpoints;  // nothing writes down what it calls
  if (why) {
    recorder->stop(*why);
    if (PyErr_Occurred()) return nullptr;
    watch::stop();
    return PyObject_Call(outerFunction(), args.get(), kwargs.get());
  }
  Recorder::Mark mark = recorder->mark();
  uint32_t since = aot::recordedSoFar();
  uint16_t region = aot::nextCheckpoint();
  Ref result;
  {
    watch::Pause pause;
    tracing::Tape* tape = runs ? &recorder->tape() : nullptr;
    Choices choices(*recorder, tape, region);
    Waiting here{recorder, tape, &pause, &choices};
    result =
        Ref::steal(runs ? callCheckpoint(here, args.get(), kwargs.get()) : callInPlace(here, args.get(), kwargs.get()));
  }
  if (recorder->stopped()) {
    tracing::leaveTape();
  } else if (!result) {
    if (runs) spoil(*recorder, Why::CheckpointFailed);
  } else if (recorder->changedSince(mark) || (!runs && aot::wroteBefore(since))) {
    if (runs) {
      spoil(*recorder, Why::CheckpointChanges);
    } else {
      recorder->stop(Why::CheckpointChanges);
      if (PyErr_Occurred()) return nullptr;
      watch::stop();
    }
  } else if (c10::GradMode::is_enabled()) {
    aot::markRecorded(since, region, "recompute");
  }
  return result.release();
}

PyMethodDef checkpointMethod = {"checkpoint", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(checkpoint)),
                                METH_VARARGS | METH_KEYWORDS, nullptr};

}  // namespace

PyObject* insteadOf(PyObject* callable) {
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
  Ref inner = function ? Ref::steal(insteadOf(function.get())) : Ref();
  PyErr_Clear();
  return inner && PyFunction_Check(function.get()) ? PyCFunction_New(&checkpointMethod, callable) : nullptr;
}

bool isCheckpoint(PyObject* callable) {
  return PyCFunction_Check(callable) && reinterpret_cast<PyCFunctionObject*>(callable)->m_ml == &checkpointMethod;
}

bool calls(Recorder& recorder, PyObject* callable, const watch::Arguments& arguments) {
  PyObject* partial = PyCFunction_GET_SELF(callable);
  if (partial && !recorder.calls(partial, arguments)) return false;
  recorderOfThread = &recorder;
  return true;
}

}  // namespace saker::frontend::checkpoints
