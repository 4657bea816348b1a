// Calls: Python functions are entered, C code does what the table says.

#include <algorithm>

#include "capture/trace.h"
#include "frontend/allowed.h"
#include "frontend/aside.h"
#include "frontend/callables.h"
#include "frontend/checkpoints.h"
#include "frontend/compiled.h"
#include "frontend/higher_order.h"
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "frontend/symbol_doors.h"
#include "frontend/symbol_tensors.h"
#include "host/objects.h"
#include "watch/loop.h"

namespace saker::frontend {

namespace {

// What calls an operator that is written in Python, from torch 2.14 on.
bool isDispatchFunction(PyObject* callable) {
  return std::string_view(Py_TYPE(callable)->tp_name) == "torch._C._PyObjectDispatchFunc";
}

// PyTorch's Python wrappers of single operators call a function that is made for each of them.
bool inOperatorWrapper() {
  watch::Place place = watch::place();
  if (!place.code) return false;
  std::string_view file = PyUnicode_AsUTF8(place.code->co_filename);
  return file.ends_with("torch/_ops.py");
}

// A graph of PyTorch's compiled autograd calls what nodes do as functions of C++, which consist of operators.
bool inBackwardNode() {
  watch::Place place = watch::place();
  if (!place.code || PyUnicode_CompareWithASCIIString(place.code->co_qualname, "Op.__call__") != 0) return false;
  std::string_view file = PyUnicode_AsUTF8(place.code->co_filename);
  return file.ends_with("torch/_dynamo/compiled_autograd.py");
}

PyObject* globalsFunction() {
  static PyObject* const function = PyDict_GetItemString(PyEval_GetBuiltins(), "globals");
  return function;
}

bool isTensorMethod(PyObject* callable, const char* name) {
  PyObject* self = selfOf(callable);
  bool descriptor = Py_IS_TYPE(callable, &PyMethodDescr_Type);
  if (!(self && isTensor(self)) && !descriptor) return false;
  if (descriptor && !PyType_IsSubtype(tensorClass(), PyDescr_TYPE(callable))) {
    return false;
  }
  return nameOf(callable) == name;
}

bool asksStrides(PyObject* method) {
  std::string name = nameOf(method);
  return name == "stride" || name == "is_contiguous" || name == "is_non_overlapping_and_dense" || name == "dim_order";
}

// What it makes would be told of as never awaited, where an attempt leaves it behind.
bool makesCoroutine(PyObject* callable) {
  if (Py_IS_TYPE(callable, &PyMethod_Type)) callable = PyMethod_GET_FUNCTION(callable);
  if (!PyFunction_Check(callable)) return false;
  return (reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callable))->co_flags & CO_COROUTINE) != 0;
}

Values valuesOf(const watch::Arguments& arguments) {
  size_t named = arguments.names ? static_cast<size_t>(PyTuple_GET_SIZE(arguments.names)) : 0;
  return Values(arguments.values, arguments.values + arguments.positional + named);
}

// Of an exception: it keeps its arguments.
bool initialisesException(PyObject* callable) {
  if (Py_IS_TYPE(callable, &PyWrapperDescr_Type)) {
    return PyExceptionClass_Check(reinterpret_cast<PyObject*>(PyDescr_TYPE(callable))) &&
           nameOf(callable) == "__init__";
  }
  if (!Py_IS_TYPE(callable, &_PyMethodWrapper_Type)) return false;
  Ref self = selfOfWrapper(callable);
  return self && PyExceptionInstance_Check(self.get()) && nameOf(callable) == "__init__";
}

}  // namespace

bool isCached(PyObject* callable) {
  return std::string_view(Py_TYPE(callable)->tp_name) == "functools._lru_cache_wrapper";
}

// Methods of tensors that read data have a hint of their own.
Stop unknownCall(PyObject* callable) {
  std::string name = Operations::name(callable);
  size_t dot = name.rfind('.');
  bool ofTensor = dot != std::string::npos && name.rfind("Tensor", dot) != std::string::npos;
  std::string_view method = std::string_view(name).substr(ofTensor ? dot + 1 : 0);
  bool reads = method == "item" || method == "tolist" || method == "numpy" || method.starts_with("__");
  return {ofTensor && reads ? Why::CallsForData : Why::CallsUnknown, name};
}

void Recorder::called(PyObject* callable, const watch::Arguments& arguments, PyObject* result) {
  for (Subject* each : subjects_->asked(Question::Called)) {
    if (each->called(callable, result, /*spread=*/false)) return;
  }
  check();
  gave(callable, result, arguments.positional);
}

void Recorder::calledSpread(PyObject* callable, PyObject* args, PyObject*, PyObject* result) {
  for (Subject* each : subjects_->asked(Question::Called)) {
    if (each->called(callable, result, /*spread=*/true)) return;
  }
  check();
  gave(callable, result, PyTuple_Check(args) ? static_cast<size_t>(PyTuple_GET_SIZE(args)) : 0);
}

// What fills a cache is done once, not again: eager mode does not either.
void Recorder::hides(bool on) {
  // A torch.autograd.Function: its code is the user's.
  const HostCall* hosting = subjects_->arrays.hosting();
  bool isUsers = std::exchange(hidesUsers_, false) || (hosting && hosting->wraps && !hosting->repeatable);
  Aside* aside = Aside::current();
  if (on) {
    if (!tracing::current())
      untaped_.emplace(nullptr);  // in a body its operators belong to that, whatever they are given
    if (aside && isUsers) aside->begin();
  } else {
    if (aside) aside->end();
    untaped_.reset();
  }
}

void Recorder::gave(PyObject* callable, PyObject* result, size_t arguments) {
  if (stopped_) return;
  if (callable == globalsFunction()) {
    fixed(result);
    return;
  }
  // What a cache gives may be older than the call.
  if (isCached(callable)) {
    if (isTensor(result) && tape_.made(tensorOf(result))) return;
    return noteFixed(result);
  }
  if (subjects_->made.gave(callable, result, arguments)) return;
  effects_.succeeded(callable);
}

// operator.attrgetter: each name is read, along its dots.
bool Recorder::getsAttributes(PyObject* getter, PyObject* object) {
  Ref reduced = Ref::steal(PyObject_CallMethod(getter, "__reduce__", nullptr));
  if (!reduced) PyErr_Clear();
  PyObject* names = reduced && PyTuple_Check(reduced.get()) && PyTuple_GET_SIZE(reduced.get()) > 1
                        ? PyTuple_GET_ITEM(reduced.get(), 1)
                        : nullptr;
  if (!names || !PyTuple_Check(names)) return stop(Why::AttrgetterUnknown);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    Ref parts =
        Ref::steal(PyUnicode_Split(PyTuple_GET_ITEM(names, i), Ref::steal(PyUnicode_FromString(".")).get(), -1));
    Ref at = Ref::borrow(object);
    for (Py_ssize_t k = 0; k < PyList_GET_SIZE(parts.get()); ++k) {
      PyObject* name = keep(interned(PyList_GET_ITEM(parts.get(), k)));
      if (!attribute(at.get(), name)) return false;
      if (k + 1 == PyList_GET_SIZE(parts.get())) break;
      Ref next = Ref::steal(PyObject_GetAttr(at.get(), name));
      if (!next) {
        PyErr_Clear();
        return true;  // the program will be told
      }
      at = next;
    }
  }
  return true;
}

// operator.methodcaller: one method of C, with the arguments that it keeps.
bool Recorder::callsMethod(PyObject* caller, PyObject* object) {
  Ref reduced = Ref::steal(PyObject_CallMethod(caller, "__reduce__", nullptr));
  PyObject* kept = reduced && PyTuple_Check(reduced.get()) ? PyTuple_GET_ITEM(reduced.get(), 1) : nullptr;
  PyObject* made = kept ? PyTuple_GET_ITEM(reduced.get(), 0) : nullptr;
  // With keywords it is made by a partial that has them and the name.
  Ref keywords = made && !PyType_Check(made) ? Ref::steal(PyObject_GetAttrString(made, "keywords")) : Ref();
  Ref before = keywords ? Ref::steal(PyObject_GetAttrString(made, "args")) : Ref();
  PyErr_Clear();
  Ref all = before ? Ref::steal(PySequence_Concat(before.get(), kept)) : Ref::borrow(kept);
  if (!all || PyTuple_GET_SIZE(all.get()) < 1) return stop(Why::MethodcallerUnknown);
  PyObject* name = keep(interned(PyTuple_GET_ITEM(all.get(), 0)));
  if (!attribute(object, name)) return false;
  Ref method = Ref::steal(PyObject_GetAttr(object, name));
  Ref given = Ref::steal(PyTuple_GetSlice(all.get(), 1, PyTuple_GET_SIZE(all.get())));
  if (!method) {
    PyErr_Clear();
    return true;  // the program will be told
  }
  keep(all);
  return callsSpread(method.get(), given.get(), keywords.get());
}

bool Recorder::callsSpread(PyObject* callable, PyObject* args, PyObject* kwargs) {
  check();
  if (stopped_) return false;
  if (speculative_ && makesCoroutine(callable)) return stop({Why::AttemptCalls, "a coroutine function"});
  if (!spreads(args, nullptr) || (kwargs && !spreads(kwargs, nullptr))) return false;
  if (PyFunction_Check(callable) && !isAllowed(callable)) {
    Ref values = kwargs && PyDict_Check(kwargs) ? Ref::steal(PyDict_Values(kwargs)) : Ref();
    return mayHandData(callable, values ? Values{args, values.get()} : Values{args});
  }
  Values values;
  if (!PyTuple_Check(args) && !PyList_Check(args)) {
    // An iterator that is not run yet; what it gives is only known for functions that look at nothing.
    watch::Arguments none;
    return calls(callable, none);
  }
  for (Py_ssize_t i = 0; i < Py_SIZE(args); ++i) values.push_back(PySequence_Fast_ITEMS(args)[i]);
  Ref names;
  size_t positional = values.size();
  if (kwargs && PyDict_Check(kwargs) && PyDict_GET_SIZE(kwargs) > 0) {
    Ref keys = Ref::steal(PyDict_Keys(kwargs));
    names = Ref::steal(PyList_AsTuple(keys.get()));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
      values.push_back(PyDict_GetItemWithError(kwargs, PyTuple_GET_ITEM(names.get(), i)));
    }
  }
  watch::Arguments arguments;
  arguments.values = values.data();
  arguments.positional = positional;
  arguments.names = names.get();
  return calls(callable, arguments);
}

// dict[str, int]() is dict(): a builtin type makes objects that keep nothing of it.
static PyObject* originOf(PyObject* alias) {
  Ref origin = Ref::steal(PyObject_GetAttrString(alias, "__origin__"));
  bool builtin = origin && PyType_Check(origin.get()) &&
                 !(reinterpret_cast<PyTypeObject*>(origin.get())->tp_flags & Py_TPFLAGS_HEAPTYPE);
  return builtin ? origin.get() : alias;
}

// The function of Python that this one, which is no other, has in its closure under the name `fn`, or nullptr.
static PyObject* wrappedBy(PyFunctionObject* function) {
  Ref names = Ref::steal(PyCode_GetFreevars(reinterpret_cast<PyCodeObject*>(function->func_code)));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names.get()); ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), "fn") != 0) continue;
    PyObject* inner = PyCell_GET(PyTuple_GET_ITEM(function->func_closure, i));
    if (inner && PyFunction_Check(inner)) return inner;
  }
  return nullptr;
}

// PyTorch keeps torch.compile out of some of its own functions by a wrapper, which would load torch.compile. Where that
// has been loaded, it has wrapped functions of optimizers as those of the program's that are to be kept out.
static PyObject* keptFromTorchCompile(PyFunctionObject* function) {
  auto* object = reinterpret_cast<PyObject*>(function);
  if (!function->func_closure) return nullptr;
  if (isPartOf(object, "inner", "torch/_compile.py")) return wrappedBy(function);
  if (!isPartOf(object, "_fn", "torch/_dynamo/eval_frame.py")) return nullptr;
  PyObject* inner = wrappedBy(function);
  if (!inner) return nullptr;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(inner));
  const char* path = PyUnicode_AsUTF8(code->co_filename);
  return path && std::string_view(path).find("/torch/optim/") != std::string_view::npos ? inner : nullptr;
}

PyObject* Recorder::instead(PyObject* callable) {
  if (stopped_) return callable;
  if (PyObject* other = insteadOf(callable)) {
    named(callable);
    return other;
  }
  PyObject* forSymbols = speculative_ ? doors::insteadOf(callable) : nullptr;
  if (!forSymbols && speculative_) forSymbols = doors::tensorInstead(callable);
  if (!forSymbols) forSymbols = subjects_->arrays.insteadOf(callable);
  if (forSymbols) return forSymbols;
  if (Py_IS_TYPE(callable, &Py_GenericAliasType)) return originOf(callable);
  if (!PyFunction_Check(callable)) return callable;
  // Not its __wrapped__, which other wrappers may have set.
  PyObject* inner = keptFromTorchCompile(reinterpret_cast<PyFunctionObject*>(callable));
  if (!inner) return callable;
  named(callable);
  return inner;
}

bool Recorder::calls(PyObject* callable, const watch::Arguments& arguments) {
  if (PyObject* original = Arrays::standsFor(callable)) callable = original;
  for (Subject* each : subjects_->asked(Question::Begins)) each->begins();
  check();
  if (stopped_) return false;
  if (speculative_ && makesCoroutine(callable)) return stop({Why::AttemptCalls, "a coroutine function"});
  if (PyFunction_Check(callable)) {
    if (!mayHandData(callable, valuesOf(arguments))) return false;
    if (speculative_ && isPartOf(callable, "import_module", "importlib/__init__.py") && arguments.positional > 0 &&
        !subjects_->attempt.mayImport(arguments.values[0], nullptr, nullptr)) {
      return false;
    }
    Answer known = subjects_->first(Question::CallsFunction,
                                    [&](Subject& each) { return each.callsFunction(callable, arguments); });
    if (known) named(callable);
    return known.value_or(!stopped_);
  }
  calling_ = callable;
  doesCall(callable);
  return callsKnown(callable, arguments);
}

// What code that is not watched does with a number that is data, such as giving it to an operator, is not told.
bool Recorder::mayHandData(PyObject* function, const Values& args) {
  if (!subjects_->arrays.any()) return true;
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  auto isData = [&](PyObject* arg) { return subjects_->arrays.holdsArrays(arg); };
  if (std::none_of(args.begin(), args.end(), isData)) return true;
  if (skipped_.of(code, nullptr) == watch::Skip::No) return true;
  return stop({Why::ArrayTo, Operations::name(function)});
}

std::optional<bool> Recorder::makesTensor(PyObject* callable, const watch::Arguments& arguments) {
  PyObject* original = doors::tensorFunction(callable);
  if (!original) return std::nullopt;
  PyObject* symbol = doors::symbolForTensor(arguments);
  if (!symbol) return callsKnown(original, arguments);
  if (!doors::canMakeTensor(arguments)) {
    subjects_->attempt.shows(symbol, ("it is given to " + Operations::name(original)).c_str());
    return false;
  }
  for (PyObject* arg : valuesOf(arguments)) {
    if (!realize(arg, true)) return false;
  }
  return true;
}

Answer Recorder::callsStandIn(PyObject* callable, const watch::Arguments& arguments) {
  if (Answer made = makesTensor(callable, arguments)) return made;
  PyObject* original = doors::standsFor(callable);
  if (!original) return std::nullopt;
  Values args = valuesOf(arguments);
  if (subjects_->attempt.shows(doors::seenInstead(callable, args), "its class is asked for")) return false;
  if (!args.empty() && doors::isSymbol(args[0])) return true;
  return callsKnown(original, arguments);
}

bool Recorder::callsKnown(PyObject* callable, const watch::Arguments& arguments) {
  if (PyFunction_Check(callable)) return true;
  if (speculative_) {
    if (subjects_->attempt.shows(doors::isSymbol(callable) ? callable : nullptr, "it is called")) return false;
    if (Answer known = callsStandIn(callable, arguments)) return *known;
  }
  Values args = valuesOf(arguments);
  if (Py_IS_TYPE(callable, &PyMethod_Type)) {
    PyObject* function = PyMethod_GET_FUNCTION(callable);
    if (PyFunction_Check(function)) {
      if (!mayHandData(function, args)) return false;
      Answer known =
          subjects_->first(Question::CallsMethod, [&](Subject& each) { return each.callsMethod(callable, arguments); });
      return known.value_or(true);
    }
    args.insert(args.begin(), PyMethod_GET_SELF(callable));
    watch::Arguments all;
    all.values = args.data();
    all.positional = arguments.positional + 1;
    all.names = arguments.names;
    return callsKnown(function, all);
  }
  if (PyInstanceMethod_Check(callable)) return callsKnown(PyInstanceMethod_GET_FUNCTION(callable), arguments);
  if (isCompiled(callable)) return true;  // it calls its function here
  if (checkpoints::isCheckpoint(callable)) return checkpoints::calls(*this, callable, arguments);
  if (higher_order::isOperator(callable)) {
    for (PyObject* arg : args) {
      if (!PyCallable_Check(arg) && !operand(arg, /*deep=*/true)) return false;
    }
    return higher_order::calls(*this);
  }
  if (Answer known = callsDescriptor(callable, args)) return *known;
  Answer known =
      subjects_->first(Question::Calls, [&](Subject& each) { return each.calls(callable, args, arguments.names); });
  if (known) return *known;
  if (PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) && PyType_Check(PyCFunction_GET_SELF(callable)) &&
      nameOf(callable) == "__new__") {
    return makes(reinterpret_cast<PyTypeObject*>(PyCFunction_GET_SELF(callable)), args);
  }
  if (initialisesException(callable)) {
    Ref self = selfOfWrapper(callable);
    PyObject* error = self ? self.get() : args.empty() ? nullptr : args[0];
    if (error && placeOf(error) != kInside) return stop(Why::ChangesEarlierException);
    return true;
  }
  if (isTensorMethod(callable, "requires_grad_")) {
    if (PyObject* self = selfOf(callable)) args.insert(args.begin(), self);
    return subjects_->made.setsRequiresGrad(args[0], args.size() > 1 ? args[1] : Py_True);
  }
  Behaviour behaviour = operations_.ofCall(callable);
  if (behaviour != Behaviour::Unknown) {
    if (PyObject* self = selfOf(callable)) args.insert(args.begin(), self);
    if (Py_IS_TYPE(callable, &_PyMethodWrapper_Type)) {
      Ref self = selfOfWrapper(callable);
      args.insert(args.begin(), self.get());
    }
    if (behaviour == Behaviour::Tensor && isTensorMethod(callable, "storage_offset")) guards().asksOffsets = true;
    if (!args.empty() && isTensor(args[0]) && asksStrides(callable)) guards().asksStrides = true;
    if (behaviour == Behaviour::Tensor && !args.empty() && isTensor(args[0]) && nameOf(callable) == "detach_") {
      return subjects_->made.detaches(args[0]);
    }
    return behaves(behaviour, callable, args, arguments.names);
  }
  if (PyType_Check(callable)) return callsType(reinterpret_cast<PyTypeObject*>(callable), args, arguments.names);
  if (isDispatchFunction(callable) && inOperatorWrapper()) {
    return behaves(Behaviour::Tensor, callable, args, arguments.names);
  }
  if (PyCFunction_Check(callable)) {
    // Sizes that are symbols compute with nodes of C++, which note what they are asked.
    if (!args.empty() && std::string_view(Py_TYPE(args[0])->tp_name).ends_with("_SymNode")) return true;
    if (inOperatorWrapper() || inBackwardNode()) return behaves(Behaviour::Tensor, callable, args, arguments.names);
    // What tensors call that do without __torch_function__: (function, types, args, kwargs).
    if (nameOf(callable) == "_disabled_torch_function_impl" && args.size() >= 3) {
      return callsSpread(args[0], args[2], args.size() > 3 && PyDict_Check(args[3]) ? args[3] : nullptr);
    }
    // A bound C method of an object that was made inside may be known by its type: iterators, generators.
    if (nameOf(callable) == "set_eval_frame") return stop(Why::CallsDisabled);
    return stop(unknownCall(callable));
  }
  return callsObject(callable, std::move(args), arguments);
}

// An object that its class makes callable.
bool Recorder::callsObject(PyObject* callable, Values args, const watch::Arguments& arguments) {
  PyTypeObject* type = Py_TYPE(callable);
  std::string_view typeName = type->tp_name;
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type) {
    return stop(unknownCall(callable));
  }
  if (typeName == "functools.partial") {
    static const char* const parts[] = {"func", "args", "keywords"};
    for (const char* part : parts) {
      Ref name = Ref::steal(PyUnicode_InternFromString(part));
      if (!attribute(callable, name.get())) return false;
    }
    Ref function = Ref::steal(PyObject_GetAttrString(callable, "func"));
    Ref given = Ref::steal(PyObject_GetAttrString(callable, "args"));
    Ref keywords = Ref::steal(PyObject_GetAttrString(callable, "keywords"));
    bool deep = !PyFunction_Check(function.get());  // what Python code reads of them is told
    if (!realize(given.get(), deep) || !realize(keywords.get(), deep)) return false;
    Values all;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given.get()); ++i) all.push_back(PyTuple_GET_ITEM(given.get(), i));
    all.insert(all.end(), args.begin(), args.end());
    watch::Arguments more;
    more.values = all.data();
    more.positional = arguments.positional + static_cast<size_t>(PyTuple_GET_SIZE(given.get()));
    more.names = arguments.names;
    return callsKnown(function.get(), more);
  }
  if (typeName == "_json.Encoder" || typeName == "_json.Scanner") {
    pin(callable);
    return behaves(Behaviour::Text, callable, args, arguments.names);
  }
  if (typeName == "operator.methodcaller") {
    pin(callable);
    return args.empty() || callsMethod(callable, args[0]);
  }
  if (typeName == "operator.itemgetter") {
    pin(callable);
    return behaves(Behaviour::Pure, callable, args, arguments.names);
  }
  if (typeName == "operator.attrgetter") {
    pin(callable);
    return args.empty() || getsAttributes(callable, args[0]);
  }
  if (PyWeakref_CheckRefExact(callable)) {
    uint32_t place = placeOf(callable);
    if (place != kInside) read(GuardOp::Referent, place, nullptr, 0, PyWeakref_GET_OBJECT(callable));
    return true;
  }
  static PyObject* const callName = PyUnicode_InternFromString("__call__");
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    PyObject* code = lookUp(type, callName);
    if (!code) return true;  // the program will be told that it cannot be called
    if (PyFunction_Check(code)) return mayHandData(code, args);
    watch::Arguments all;
    args.insert(args.begin(), callable);
    all.values = args.data();
    all.positional = arguments.positional + 1;
    all.names = arguments.names;
    if (code != callable && !Py_IS_TYPE(code, &PyWrapperDescr_Type)) return callsKnown(code, all);
  }
  return stop({Why::CallsUnknownObject, type->tp_name});
}

}  // namespace saker::frontend
