// What surrounds operators and is none itself: flags of PyTorch's, hooks on what autograd saves, what belongs to a
// thread.
#include <Python.h>

#include <algorithm>

#include "frontend/around.h"
#include "frontend/kinds.h"
#include "frontend/recorder.h"

namespace saker::frontend {

namespace {

using Values = std::vector<PyObject*>;

// Flags that functions of one name set and tell; those of precision follow from each other.
std::string flagOf(PyObject* callable) {
  std::string name = nameOf(callable);
  if (name.find("precision") != std::string::npos || name.find("tf32") != std::string::npos) return "precision";
  for (std::string_view prefix : {"_set_", "_get_", "set_", "get_"}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

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

bool Recorder::asksFlag(PyObject* callable, const Values& given) {
  Values args = withoutSelf(callable, given);
  if (setFlags_.contains(flagOf(callable))) return true;  // the call has set it itself
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  for (size_t i = 0; i < args.size(); ++i) {
    if (!isAtom(args[i])) return stop("calls " + Operations::name(callable) + " with an object");
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
  }
  for (const Asked& each : asked_) {
    if (each.function.get() == callable && sameValue(each.arguments.get(), tuple.get())) return true;
  }
  Ref answer = Ref::steal(PyObject_CallObject(callable, tuple.get()));
  if (!answer) {
    PyErr_Clear();
    return true;  // the program will be told
  }
  if (!isAtom(answer.get())) return stop("asks " + Operations::name(callable) + ", which gives an object");
  asked_.push_back({Ref::borrow(callable), tuple, answer});
  return true;
}

bool Recorder::setsFlag(PyObject* callable, const Values& given, PyObject* names) {
  if (speculative_) return stop("sets a flag of PyTorch's");
  Values args = withoutSelf(callable, given);
  if (!std::all_of(args.begin(), args.end(), isAtom)) {
    return stop("calls " + Operations::name(callable) + " with an object");
  }
  setFlags_.insert(flagOf(callable));
  ++flagSets_;
  if (!hosts(callable, args, names)) return false;
  hosted_->call->sets = hosted_->call->repeatable = true;
  return true;
}

// The hooks are called again by PyTorch, whenever the operators run.
bool Recorder::packsSaved(const Values& hooks) {
  if (speculative_) return stop("sets hooks on saved tensors");
  auto call = c10::make_intrusive<HostCall>();
  for (PyObject* hook : hooks) {
    bool made = PyFunction_Check(hook) && madeHere(hook);
    if (made ? !holdsOnlyValues(hook) : placeOf(hook) == kInside && !PyFunction_Check(hook)) {
      return stop("sets hooks on saved tensors that hold objects of the call");
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
         tape_.wroteOlder(mark.operators);
}

PyObject* Recorder::insteadOf(PyObject* callable) {
  if (callable == around::push()) return around::hiddenPush();
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
  if (!dict || lookUp(Py_TYPE(local), name)) return stop("reads an attribute of a threading.local that its class has");
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
  if (!dict || lookUp(Py_TYPE(local), name)) return stop("sets an attribute of a threading.local that its class has");
  if (!value && !PyDict_GetItemWithError(dict, name)) return true;  // the program will be told
  read(Op::DictOf, place, nullptr, 0, dict);
  if (!beforeWrite(dict)) return false;
  written_.emplace(dict, name);
  return value ? effect(set, {dict, name, value}) : effect(remove, {dict, name});
}

}  // namespace saker::frontend
