// What surrounds operators and is none itself: flags of PyTorch's, hooks on what autograd saves, what belongs to a
// thread.
#include <Python.h>

#include <algorithm>

#include "frontend/around.h"
#include "frontend/compiling_question.h"
#include "frontend/kinds.h"
#include "frontend/recorder.h"

namespace saker::frontend {

namespace {

using Values = std::vector<PyObject*>;

// Functions of pybind11 are bound to what it knows of them.
Values withoutSelf(PyObject* callable, const Values& args) {
  bool bound = !args.empty() && PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) == args[0];
  return bound ? Values(args.begin() + 1, args.end()) : args;
}

bool holdsOnlyValues(PyObject* function) {
  auto* made = reinterpret_cast<PyFunctionObject*>(function);
  for (Py_ssize_t i = 0; made->func_closure && i < PyTuple_GET_SIZE(made->func_closure); ++i) {
    PyObject* held = PyCell_GET(PyTuple_GET_ITEM(made->func_closure, i));
    if (!held || (!isAtom(held) && !PyModule_Check(held))) return false;
  }
  return !made->func_defaults && !made->func_kwdefaults;
}

}  // namespace

bool Recorder::setsFlag(PyObject* callable, const Values& given, PyObject* names) {
  if (speculative_) return stop(Why::AttemptSetsFlag);
  Values args = withoutSelf(callable, given);
  if (!std::all_of(args.begin(), args.end(), isAtom)) {
    return stop({Why::CallsWithObject, Operations::name(callable)});
  }
  setFlags_.insert(around::flagOf(callable));
  ++flagSets_;
  if (!hosts(callable, args, names)) return false;
  hosted_->call->sets = hosted_->call->repeatable = true;
  return true;
}

// The hooks are called again by PyTorch, whenever the operators run.
bool Recorder::packsSaved(const Values& hooks) {
  if (speculative_) return stop(Why::AttemptSetsSavedHooks);
  auto call = c10::make_intrusive<HostCall>();
  for (PyObject* hook : hooks) {
    bool made = PyFunction_Check(hook) && madeHere(hook);
    if (made ? !holdsOnlyValues(hook) : placeOf(hook) == kInside && !PyFunction_Check(hook)) {
      return stop(Why::SavedHooksOfCall);
    }
    pin(hook);
    call->arguments.push_back({HostPart::Kind::Constant, Ref::borrow(hook), 0, {}});
  }
  call->callable = Ref::borrow(around::push());
  call->sets = call->repeatable = true;
  setFlags_.insert("saved tensors");
  ++flagSets_;
  hosted_.emplace();
  hosted_->call = std::move(call);
  return true;
}

bool Recorder::changedSince(const Mark& mark) const {
  return effects_.size() != mark.effects || draws_.size() != mark.draws || flagSets_ != mark.flags ||
         handles_.size() != mark.hooks || tape_.wroteOlder(mark.operators);
}

PyObject* Recorder::insteadOf(PyObject* callable) {
  if (callable == around::push()) return around::hiddenPush();
  if (CompilingQuestion* question = CompilingQuestion::current()) {
    if (PyObject* answer = question->insteadOf(callable)) return answer;
  }
  PyObject* other = around::insteadOfCheckpoint(callable);
  if (other) kept_.push_back(Ref::steal(other));
  return other;
}

std::optional<bool> Recorder::callsDescriptor(PyObject* callable, const Values& args) {
  if (!Py_IS_TYPE(callable, &_PyMethodWrapper_Type) || args.empty()) return std::nullopt;
  Ref descriptor = Ref::steal(PyObject_GetAttrString(callable, "__self__"));
  if (!descriptor || !Py_IS_TYPE(descriptor.get(), &PyGetSetDescr_Type)) return std::nullopt;
  kept_.push_back(descriptor);
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
  uint32_t held = read(Op::DictOf, place, nullptr, 0, dict);
  if (written(dict, name)) return true;
  if (PyObject* value = PyDict_GetItemWithError(dict, name)) {
    read(Op::Key, held, name, 0, value);
  } else {
    checkIs(Op::NoKey, held, name);
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
  read(Op::DictOf, place, nullptr, 0, dict);
  if (!beforeWrite(dict)) return false;
  written_.emplace(dict, name);
  return value ? effect(set, {dict, name, value}) : effect(remove, {dict, name});
}

}  // namespace saker::frontend
