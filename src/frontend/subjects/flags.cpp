#include <ATen/PythonTorchFunctionTLS.h>
#include <Python.h>

#include <algorithm>

#include "frontend/around.h"
#include "frontend/compiling_question.h"
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "host/objects.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

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

// Which object this is, or which value it has, is all that there is to it.
bool isAnswer(PyObject* object) {
  if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
    PyObject* const* items = PySequence_Fast_ITEMS(object);
    return std::all_of(items, items + Py_SIZE(object), isAnswer);
  }
  return isAtom(object) || isNamed(object);
}

bool sameArguments(const Asked& asked, PyObject* function, PyObject* arguments, const std::vector<uint32_t>& places) {
  return asked.function.get() == function && asked.places == places && sameAnswer(asked.arguments.get(), arguments);
}

// C code that is bound to an object, as the method of its type that takes any.
Ref unbound(PyObject* callable, PyObject* self) {
  Ref name = Ref::steal(PyObject_GetAttrString(callable, "__name__"));
  PyErr_Clear();
  return name ? Ref::borrow(_PyType_Lookup(Py_TYPE(self), name.get())) : Ref();
}

// Neither modes nor classes see what is asked.
class WithoutTorchFunction {
 public:
  WithoutTorchFunction() : before_(at::impl::PythonTorchFunctionTLS::get_disabled_state()) {
    at::impl::PythonTorchFunctionTLS::set_disabled_state(at::impl::TorchFunctionDisabledState::ALL_DISABLED);
  }
  ~WithoutTorchFunction() { at::impl::PythonTorchFunctionTLS::set_disabled_state(before_); }
  WithoutTorchFunction(const WithoutTorchFunction&) = delete;
  WithoutTorchFunction& operator=(const WithoutTorchFunction&) = delete;

 private:
  at::impl::TorchFunctionDisabledState before_;
};

// Whose autocast is among what is guarded of every call.
bool isUsualDevice(PyObject* device) {
  return PyUnicode_Check(device) && (PyUnicode_CompareWithASCIIString(device, "cpu") == 0 ||
                                     PyUnicode_CompareWithASCIIString(device, "cuda") == 0);
}

PyObject* handledNow() {
  PyObject* handled = PyErr_GetHandledException();
  Py_XDECREF(handled);  // the handler holds it
  return handled == Py_None ? nullptr : handled;
}

}  // namespace

Ref askAgain(const Asked& asked, const std::vector<PyObject*>& found) {
  std::vector<PyObject*> args;
  for (size_t i = 0; i < asked.places.size(); ++i) {
    PyObject* constant = PyTuple_GET_ITEM(asked.arguments.get(), static_cast<Py_ssize_t>(i));
    args.push_back(asked.places[i] == kInside ? constant : found[asked.places[i]]);
  }
  std::optional<WithoutTorchFunction> unasked;
  if (!asked.users) unasked.emplace();
  Ref answer = Ref::steal(PyObject_Vectorcall(asked.function.get(), args.data(), args.size(), nullptr));
  if (!answer) PyErr_Clear();
  return answer;
}

bool sameAnswer(PyObject* left, PyObject* right) {
  if (left == right) return true;
  if (Py_TYPE(left) != Py_TYPE(right)) return false;
  if (!PyList_CheckExact(left) && !PyTuple_CheckExact(left)) return isAtom(left) && sameValue(left, right);
  if (Py_SIZE(left) != Py_SIZE(right)) return false;
  for (Py_ssize_t i = 0; i < Py_SIZE(left); ++i) {
    if (!sameAnswer(PySequence_Fast_ITEMS(left)[i], PySequence_Fast_ITEMS(right)[i])) return false;
  }
  return true;
}

bool FlagsAround::sets(PyObject* callable, const Values& given, PyObject* names) {
  if (speculative()) return stop(Why::AttemptSetsFlag);
  Values args = withoutSelf(callable, given);
  if (!std::all_of(args.begin(), args.end(), isAtom)) {
    return stop({Why::CallsWithObject, Operations::name(callable)});
  }
  set_.insert(around::flagOf(callable));
  ++count_;
  if (!subjects().arrays.hosts(callable, args, names)) return false;
  subjects().arrays.hosting()->sets = subjects().arrays.hosting()->repeatable = true;
  return true;
}

// The hooks are called again by PyTorch, whenever the operators run.
bool FlagsAround::packsSaved(const Values& hooks) {
  if (speculative()) return stop(Why::AttemptSetsSavedHooks);
  auto call = c10::make_intrusive<HostCall>();
  for (PyObject* hook : hooks) {
    bool made = PyFunction_Check(hook) && recorder_.madeHere(hook);
    if (made ? !holdsOnlyValues(hook) : placeOf(hook) == kInside && !PyFunction_Check(hook)) {
      return stop(Why::SavedHooksOfCall);
    }
    pin(hook);
    call->arguments.push_back({HostPart::Kind::Constant, Ref::borrow(hook), 0, {}});
  }
  call->callable = Ref::borrow(around::push());
  call->sets = call->repeatable = true;
  set_.insert("saved tensors");
  ++count_;
  subjects().arrays.begin(std::move(call));
  return true;
}

// sys.exc_info(): the caller may be in a handler.
bool FlagsAround::asksForException(PyObject* callable) {
  PyObject* now = handledNow();
  if (now != recorder_.handled()) return true;  // one of the call's own
  if (now) return stop({Why::AsksForHandled, Operations::name(callable)});
  return true;  // whether there is one is guarded
}

bool FlagsAround::asks(PyObject* callable, const Values& given) {
  std::string name = nameOf(callable);
  if (name == "exc_info" || name == "exception") return asksForException(callable);
  if (set_.contains(around::flagOf(callable))) return true;  // the call has set it itself
  if (name.find("autocast") != std::string::npos && (given.empty() || isUsualDevice(given.back()))) return true;
  Values args = given;
  Ref function = Ref::borrow(callable);
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  if (self && !args.empty() && args[0] == self) {
    if (isTensor(self)) {
      function = unbound(callable, self);
      if (!function) return stop(unknownCall(callable));
    } else {
      args.erase(args.begin());  // functions of pybind11 are bound to what it knows of them
    }
  }
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
  std::vector<uint32_t> places;
  for (size_t i = 0; i < args.size(); ++i) {
    bool constant = isAtom(args[i]) || named(args[i]);
    places.push_back(constant ? kInside : placeOf(args[i]));
    if (!constant && places.back() == kInside) {
      if (args.size() == 1) return true;  // how the call made it is recorded
      return stop({Why::CallsWithMade, Operations::name(callable)});
    }
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(constant ? args[i] : Py_None));
  }
  for (const Asked& each : asked_) {
    if (sameArguments(each, function.get(), tuple.get(), places)) return true;
  }
  Asked asked{function, tuple, {}, places, false};
  asked.answer = askAgain(asked, provenance().objects());
  if (!asked.answer) return true;  // the program will be told
  if (!isAnswer(asked.answer.get())) return stop({Why::AsksForObject, Operations::name(callable)});
  asked_.push_back(std::move(asked));
  return true;
}

// A function mode is asked by every operator from now on.
bool FlagsAround::meetsMode(PyObject* mode) {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  return attribute(mode, name);
}

void FlagsAround::meetModes() {
  modes_ = functionModes();
  for (size_t i = 0; i < modes_.size(); ++i) {
    read(GuardOp::FunctionMode, kInside, nullptr, static_cast<int64_t>(i), modes_[i].get());
    meetsMode(modes_[i].get());
  }
}

std::optional<std::vector<Ref>> FlagsAround::leftModes() const {
  std::vector<Ref> now = functionModes();
  bool same = now.size() == modes_.size();
  for (size_t i = 0; same && i < now.size(); ++i) same = now[i].get() == modes_[i].get();
  if (same) return std::nullopt;
  return now;
}

bool FlagsAround::leavesGradMode(const Ambient& before) {
  static constinit watch::Once<PyObject*> found;
  PyObject* set = found.get([] { return watch::importedAttribute("torch._C", "_set_grad_enabled"); });
  Ambient now = Ambient::now();
  bool mode = std::exchange(now.gradMode, before.gradMode);
  now.functionModes = before.functionModes;  // see leftModes()
  if (!set_.empty()) {                       // operators of the graph set them
    now.deterministic = before.deterministic;
    now.deterministicWarnOnly = before.deterministicWarnOnly;
    now.mkldnn = before.mkldnn;
    now.defaultType = before.defaultType;
  }
  if (mode == before.gradMode) return now == before;
  return set && now == before && effect(set, {mode ? Py_True : Py_False});
}

Answer FlagsAround::calls(PyObject* callable, const Values& args, PyObject*) {
  if (!around::isPush(callable)) return std::nullopt;
  return packsSaved(args);
}

Answer FlagsAround::behaves(Behaviour behaviour, PyObject* callable, const Values& args, PyObject* names) {
  if (behaviour == Behaviour::Asks) return asks(callable, args);
  if (behaviour == Behaviour::Sets) return sets(callable, args, names);
  if (behaviour != Behaviour::Ambient) return std::nullopt;
  return args.empty() || nameOf(callable) != "_push_on_torch_function_stack" || meetsMode(args[0]);
}

Answer FlagsAround::callsFunction(PyObject* function, const watch::Arguments& arguments) {
  if (!around::isFlagSetter(function)) return std::nullopt;
  size_t named = arguments.names ? static_cast<size_t>(PyTuple_GET_SIZE(arguments.names)) : 0;
  Values args(arguments.values, arguments.values + arguments.positional + named);
  if (!sets(function, args, arguments.names)) return false;
  hide(function);
  return true;
}

}  // namespace saker::frontend
