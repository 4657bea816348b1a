#include "frontend/checkpoint_choices.h"

#include <optional>
#include <utility>

#include "aot/checkpoint_regions.h"
#include "frontend/recorder.h"
#include "host/kept_error.h"
#include "watch/once.h"

namespace saker::frontend::checkpoints {

namespace {

thread_local Choices* innermost = nullptr;
thread_local Choices* asking = nullptr;                // whose operator is being called
thread_local const watch::Pause* unwatched = nullptr;  // while PyTorch's own code is around an operator

// A function of saker._checkpoint.
PyObject* helper(const char* name) { return watch::importedAttribute("saker._checkpoint", name); }

PyObject* operatorsPlain(PyObject* mode, PyObject* args) {
  Ref method = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(mode)), "__torch_dispatch__"));
  Ref self = method ? Ref::steal(PyTuple_Pack(1, mode)) : Ref();
  Ref all = self ? Ref::steal(PySequence_Concat(self.get(), args)) : Ref();
  return all ? PyObject_CallObject(method.get(), all.get()) : nullptr;
}

bool isTrue(PyObject* question, PyObject* subject) {
  Ref answer = question ? Ref::steal(PyObject_CallFunctionObjArgs(question, subject, nullptr)) : Ref();
  return answer && answer.get() == Py_True;
}

}  // namespace

PyObject* callWatched(Recorder& recorder, const watch::Pause& pause, PyObject* function, PyObject* args,
                      PyObject* kwargs) {
  watch::Resume resume(pause);
  if (!recorder.callsSpread(function, args, kwargs)) {
    watch::stop();
    if (PyErr_Occurred()) return nullptr;
  }
  return PyObject_Call(function, args, kwargs);
}

Choices::Choices(Recorder& recorder, tracing::Tape* tape, uint16_t region)
    : recorder_(recorder), tape_(tape), region_(region), outer_(std::exchange(innermost, this)) {}

Choices::~Choices() {
  innermost = outer_;
  if (!ask_) return;
  const KeptError kept;  // the mode holds what is saved: it must not hold itself
  PyObject_SetAttrString(mode_.get(), "policy_fn", PyCFunction_GET_SELF(ask_.get()));
  PyObject_DelAttrString(mode_.get(), "__torch_dispatch__");
  PyErr_Clear();
}

Choices* Choices::of(PyObject* mode) {
  Choices* each = innermost;
  while (each && each->mode() != mode) each = each->outer_;
  return each && !each->recorder_.stopped() ? each : nullptr;
}

PyObject* Choices::contexts(PyObject* function, const watch::Pause& pause) {
  static constinit watch::Once<PyObject*> question;
  Ref none = Ref::steal(PyTuple_New(0));
  Ref made;
  {
    std::optional<tracing::TapeScope> taped;
    if (tape_) taped.emplace(tape_);
    made = Ref::steal(callWatched(recorder_, pause, function, none.get(), nullptr));
  }
  if (!made || recorder_.stopped()) return made.release();
  if (!isTrue(question.get([] { return helper("are_choices"); }), made.get())) {
    if (PyErr_Occurred()) return nullptr;
    watch::Resume resume(pause);
    recorder_.stop(Why::CheckpointContext);
    if (PyErr_Occurred()) return nullptr;
    watch::stop();
    return made.release();
  }
  mode_ = Ref::borrow(PyTuple_GET_ITEM(made.get(), 0));
  return watchPolicy() ? made.release() : nullptr;
}

// Operators that the function calls come here, and so does the question for each.
bool Choices::watchPolicy() {
  static PyMethodDef operators = {"__torch_dispatch__", dispatch, METH_VARARGS, nullptr};
  static PyMethodDef question = {"policy", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(ask)),
                                 METH_VARARGS | METH_KEYWORDS, nullptr};
  Ref policy = Ref::steal(PyObject_GetAttrString(mode_.get(), "policy_fn"));
  ask_ = policy ? Ref::steal(PyCFunction_New(&question, policy.get())) : Ref();
  Ref entry = ask_ ? Ref::steal(PyCFunction_New(&operators, mode_.get())) : Ref();
  return entry && PyObject_SetAttrString(mode_.get(), "policy_fn", ask_.get()) == 0 &&
         PyObject_SetAttrString(mode_.get(), "__torch_dispatch__", entry.get()) == 0;
}

PyObject* Choices::call(PyObject* function, PyObject* args, PyObject* kwargs) const {
  static constinit watch::Once<PyObject*> found;
  PyObject* inContext = found.get([] { return helper("call_in"); });
  Ref named = Ref::borrow(kwargs ? kwargs : Py_None);
  return inContext ? PyObject_CallFunctionObjArgs(inContext, mode_.get(), function, args, named.get(), nullptr)
                   : nullptr;
}

// The arguments are the operator, classes, and its arguments by place and by name.
PyObject* Choices::dispatch(PyObject* mode, PyObject* args) {
  static constinit watch::Once<PyObject*> found;
  Choices* choices = of(mode);
  if (!choices) return operatorsPlain(mode, args);
  std::optional<watch::Pause> pause;
  const watch::Pause* before = unwatched;
  if (!before) unwatched = &pause.emplace();
  Choices* around = std::exchange(asking, choices);
  uint32_t since = aot::recordedSoFar();
  choices->saves_ = false;
  Ref result;
  if (choices->tape_) {
    tracing::TapeScope taped(tracing::currentTape());  // until the answer is known: what is kept is not recorded
    result = Ref::steal(operatorsPlain(mode, args));
  } else {
    PyObject* choose = found.get([] { return helper("choose"); });
    Ref given = Ref::steal(PyTuple_Pack(1, choices->ask_.get()));
    Ref all = given && choose ? Ref::steal(PySequence_Concat(given.get(), args)) : Ref();
    if (all) result = Ref::steal(PyObject_CallObject(choose, all.get()));
  }
  asking = around;
  unwatched = before;
  if (result && choices->saves_) aot::markRecorded(since, choices->region_, "save");
  return result.release();
}

PyObject* Choices::ask(PyObject* policy, PyObject* args, PyObject* kwargs) {
  static constinit watch::Once<PyObject*> found;
  Choices* choices = std::exchange(asking, nullptr);
  const watch::Pause* pause = choices ? std::exchange(unwatched, nullptr) : nullptr;
  bool watched = pause && !choices->recorder_.stopped();
  Ref answer = Ref::steal(watched ? callWatched(choices->recorder_, *pause, policy, args, kwargs)
                                  : PyObject_Call(policy, args, kwargs));
  if (!choices) return answer.release();
  asking = choices;
  unwatched = pause;
  if (!answer) return nullptr;
  choices->saves_ = isTrue(found.get([] { return helper("saves"); }), answer.get());
  if (PyErr_Occurred()) return nullptr;
  if (choices->tape_) tracing::leaveTape();
  return answer.release();
}

}  // namespace saker::frontend::checkpoints
