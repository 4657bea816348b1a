// Calls that something else stands in for, and attributes that lie in a dict of the thread.
#include <Python.h>

#include <algorithm>

#include "capture/trace.h"
#include "frontend/around.h"
#include "frontend/callables.h"
#include "frontend/checkpoints.h"
#include "frontend/compiling_question.h"
#include "frontend/computation.h"
#include "frontend/higher_order.h"
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"

namespace saker::frontend {

Recorder::Mark Recorder::mark() const {
  return {effects().size(), subjects_->random.draws().size(), subjects_->flags.setCount(), tape_.operators(),
          subjects_->hooks.handleCount()};
}

size_t Recorder::effectsOutside() const {
  return static_cast<size_t>(
      std::ranges::count_if(effects(), [](const Effect& each) { return !each.early && !each.inner && !each.hook; }));
}

bool Recorder::changedSince(const Mark& mark, bool tensors) const {
  Mark now = this->mark();
  return now.effects != mark.effects || now.draws != mark.draws || now.flags != mark.flags || now.hooks != mark.hooks ||
         (tensors && tape_.wroteOlder(mark.operators));
}

void Recorder::forgetRestored(const Mark& mark) {
  std::vector<Effects::Restored> restored = effects_.restoredSince(mark.effects);
  for (const Effects::Restored& each : restored) {
    // Numbers that change from call to call are not guarded by what they are.
    bool changes = each.value && (PyFloat_Check(each.value) || standIns_.contains(each.value));
    if (changes || placeOf(each.owner ? each.owner : each.dict) == kInside) return;
  }
  for (const Effects::Restored& each : restored) {
    uint32_t dict = each.owner ? read(GuardOp::DictOf, placeOf(each.owner), nullptr, 0, each.dict) : placeOf(each.dict);
    if (each.value) {
      read(GuardOp::Key, dict, each.key, 0, each.value);
    } else {
      checkIs(GuardOp::NoKey, dict, each.key);
    }
  }
  if (!restored.empty()) effects_.forgetSince(mark.effects);
}

std::string Recorder::changeSince(const Mark& mark) const {
  Mark now = this->mark();
  if (now.effects != mark.effects) {
    const Effect& first = effects()[std::min(mark.effects, now.effects - 1)];
    std::string text = nameOf(first.callable.get());
    if (!first.arguments.empty()) text += std::string(" of a ") + Py_TYPE(first.arguments[0].get())->tp_name;
    if (first.arguments.size() > 1 && PyUnicode_Check(first.arguments[1].get())) {
      text += std::string(", '") + PyUnicode_AsUTF8(first.arguments[1].get()) + "'";
    }
    return text;
  }
  if (now.draws != mark.draws) return "random numbers are drawn";
  if (now.flags != mark.flags) return "a setting of PyTorch's is changed";
  if (now.hooks != mark.hooks) return "a hook is registered";
  return "a tensor is written";
}

PyObject* Recorder::insteadOf(PyObject* callable) {
  if (callable == around::push()) return around::hiddenPush();
  if (CompilingQuestion* question = CompilingQuestion::current()) {
    if (PyObject* answer = question->insteadOf(callable)) return answer;
  }
  PyObject* other = checkpoints::insteadOf(callable);
  if (!other) other = higher_order::insteadOf(callable);
  if (!other && speculative_) other = higher_order::insteadOfApply(callable);
  if (!other && (speculative_ || tracing::current())) other = higher_order::insteadOfSeed(callable);
  if (!other && Computation::recording()) other = higher_order::insteadOfInnerApply(callable);
  if (!other && speculative_) other = Hooks::insteadOf(callable);
  if (other) keep(Ref::steal(other));
  return other;
}

std::optional<bool> Recorder::callsDescriptor(PyObject* callable, const Values& args) {
  if (!Py_IS_TYPE(callable, &_PyMethodWrapper_Type) || args.empty()) return std::nullopt;
  Ref descriptor = selfOfWrapper(callable);
  if (!descriptor || !Py_IS_TYPE(descriptor.get(), &PyGetSetDescr_Type)) return std::nullopt;
  keep(descriptor);
  PyObject* name = PyDescr_NAME(descriptor.get());
  std::string asked = nameOf(callable);
  if (asked == "__get__") return descriptorRead(args[0], name, descriptor.get(), placeOf(args[0]));
  if (asked == "__set__" && args.size() == 2) return plainWrite(args[0], name, args[1]);
  return std::nullopt;
}

bool Recorder::localAttribute(PyObject* local, PyObject* name) {
  uint32_t place = placeOf(local);
  if (place == kInside) return true;
  PyObject* dict = dictOfThread(local);
  if (!dict || lookUp(Py_TYPE(local), name)) return stop(Why::ReadsLocalOfClass);
  uint32_t held = read(GuardOp::DictOf, place, nullptr, 0, dict);
  if (written(dict, name)) return true;
  if (PyObject* value = PyDict_GetItemWithError(dict, name)) {
    read(GuardOp::Key, held, name, 0, value);
  } else {
    checkIs(GuardOp::NoKey, held, name);
  }
  return true;
}

bool Recorder::localWrite(PyObject* local, PyObject* name, PyObject* value) {
  static PyObject* const set = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__setitem__");
  static PyObject* const remove = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__delitem__");
  uint32_t place = placeOf(local);
  if (place == kInside) return true;
  PyObject* dict = dictOfThread(local);
  if (!dict || lookUp(Py_TYPE(local), name)) return stop(Why::SetsLocalOfClass);
  if (!value && !PyDict_GetItemWithError(dict, name)) return true;  // the program will be told
  read(GuardOp::DictOf, place, nullptr, 0, dict);
  if (!beforeWrite(dict)) return false;
  effects_.write(dict, name);
  return value ? effect(set, {dict, name, value}) : effect(remove, {dict, name});
}

}  // namespace saker::frontend
