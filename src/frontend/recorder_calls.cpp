// Calls: Python functions are entered, C code does what the table says.

#include <algorithm>

#include "frontend/around.h"
#include "frontend/aside.h"
#include "frontend/compiled.h"
#include "frontend/kinds.h"
#include "frontend/recorder.h"
#include "frontend/symbol_doors.h"
#include "host/objects.h"
#include "watch/loop.h"

namespace saker::frontend {

namespace {

using Values = std::vector<PyObject*>;

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

// __hash__ by id(): as object's own, it tells objects apart.
bool inHash() {
  watch::Place place = watch::place();
  return place.code && PyUnicode_CompareWithASCIIString(place.code->co_name, "__hash__") == 0;
}

PyObject* globalsFunction() {
  static PyObject* const function = PyDict_GetItemString(PyEval_GetBuiltins(), "globals");
  return function;
}

bool isCached(PyObject* callable) {
  return std::string_view(Py_TYPE(callable)->tp_name) == "functools._lru_cache_wrapper";
}

PyObject* selfOf(PyObject* callable) {
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    return self && !PyModule_Check(self) && !PyType_Check(self) ? self : nullptr;
  }
  return nullptr;
}

// The same text as an object that is compared by its address.
Ref interned(PyObject* text) {
  PyObject* raw = Py_NewRef(text);
  PyUnicode_InternInPlace(&raw);
  return Ref::steal(raw);
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

bool isLeaf(const at::Tensor& tensor) { return tensor.requires_grad() && tensor.is_leaf(); }

// Of an exception: it keeps its arguments.
bool initialisesException(PyObject* callable) {
  if (Py_IS_TYPE(callable, &PyWrapperDescr_Type)) {
    return PyExceptionClass_Check(reinterpret_cast<PyObject*>(PyDescr_TYPE(callable))) &&
           nameOf(callable) == "__init__";
  }
  if (!Py_IS_TYPE(callable, &_PyMethodWrapper_Type)) return false;
  Ref self = Ref::steal(PyObject_GetAttrString(callable, "__self__"));
  PyErr_Clear();
  return self && PyExceptionInstance_Check(self.get()) && nameOf(callable) == "__init__";
}

}  // namespace

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
  if (hosted_) return hosted(result);
  if (hooking_) return setHooks(result);
  if (drawing_) return drew(result);
  if (caching_) cached(result);
  if (naming_) return namedTuple(result);
  took();
  if (PyObject* module = std::exchange(initialising_, nullptr); module && !stopped_) initialised(module);
  if (seedCall_ != SeedCall::None) changedSeed(result);
  check();
  gave(callable, result, arguments.positional);
}

void Recorder::calledSpread(PyObject* callable, PyObject* args, PyObject*, PyObject* result) {
  if (hosted_) return hosted(result);
  if (caching_) cached(result);
  took();
  check();
  gave(callable, result, PyTuple_Check(args) ? static_cast<size_t>(PyTuple_GET_SIZE(args)) : 0);
}

// What fills a cache is done once, not again: eager mode does not either.
void Recorder::hides(bool on) {
  // A torch.autograd.Function: its code is the user's.
  bool isUsers = hosted_ && hosted_->call->wraps && !hosted_->call->repeatable;
  Aside* aside = Aside::current();
  if (on) {
    untaped_.emplace(nullptr);
    if (aside && isUsers) aside->begin();
  } else {
    if (aside) aside->end();
    untaped_.reset();
  }
}

void Recorder::gave(PyObject* callable, PyObject* result, size_t arguments) {
  if (stopped_) return;
  if (!making_.empty() && making_.back()[0].get() == callable) generatorPlace(result);
  if (callable == globalsFunction()) {
    fixed(result);
    return;
  }
  // What a cache gives may be older than the call.
  if (isCached(callable)) {
    if (isTensor(result) && tape_.made(tensorOf(result))) return;
    return noteFixed(result);
  }
  if (isTensor(result) && makesSubclass(callable)) return becomesParameter(result);
  // Functions that make tensors tell autograd themselves.
  if (isTensor(result) && isLeaf(tensorOf(result)) && !leaves_.contains(result) && placeOf(result) == kInside &&
      tape_.computed(tensorOf(result))) {
    makesLeaf(result, Py_True);
    return;
  }
  if (PyType_Check(result) && !(callable == reinterpret_cast<PyObject*>(&PyType_Type) && arguments == 1)) {
    bool makes = PyCFunction_Check(callable) ||
                 (PyType_Check(callable) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(callable), &PyType_Type));
    if (makes && (Py_TYPE(callable) == &PyType_Type || !PyCFunction_Check(callable) ||
                  nameOf(callable) == "__build_class__" || nameOf(callable) == "__new__")) {
      kept_.push_back(Ref::borrow(result));
      madeClasses_.insert(result);
    }
  }
  auto found =
      std::find_if(pending_.rbegin(), pending_.rend(), [&](const Pending& each) { return each.callable == callable; });
  if (found == pending_.rend()) return;
  Pending done = *found;
  pending_.erase(std::next(found).base());
  if (done.length < 0) return;
  Effect& extended = effects_[done.effect];
  PyObject* list = extended.arguments[0].get();
  Ref added = Ref::steal(PyList_GetSlice(list, done.length, PyList_GET_SIZE(list)));
  extended.arguments[1] = Ref::steal(PyList_AsTuple(added.get()));
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
      kept_.push_back(interned(PyList_GET_ITEM(parts.get(), k)));
      PyObject* name = kept_.back().get();
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
  kept_.push_back(interned(PyTuple_GET_ITEM(all.get(), 0)));
  PyObject* name = kept_.back().get();
  if (!attribute(object, name)) return false;
  Ref method = Ref::steal(PyObject_GetAttr(object, name));
  Ref given = Ref::steal(PyTuple_GetSlice(all.get(), 1, PyTuple_GET_SIZE(all.get())));
  if (!method) {
    PyErr_Clear();
    return true;  // the program will be told
  }
  kept_.push_back(all);
  return callsSpread(method.get(), given.get(), keywords.get());
}

bool Recorder::callsSpread(PyObject* callable, PyObject* args, PyObject* kwargs) {
  check();
  if (stopped_) return false;
  if (!spreads(args, nullptr) || (kwargs && !spreads(kwargs, nullptr))) return false;
  if (PyFunction_Check(callable)) return true;
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

// PyTorch keeps torch.compile out of some of its own functions by a wrapper, which would load torch.compile.
PyObject* Recorder::instead(PyObject* callable) {
  if (stopped_) return callable;
  if (PyObject* other = insteadOf(callable)) return other;
  PyObject* forSymbols = speculative_ ? doors::insteadOf(callable) : nullptr;
  if (forSymbols) return forSymbols;
  if (!PyFunction_Check(callable)) return callable;
  auto* function = reinterpret_cast<PyFunctionObject*>(callable);
  if (!function->func_closure || !isPartOf(callable, "inner", "torch/_compile.py")) return callable;
  // Not its __wrapped__, which other wrappers may have set.
  Ref names = Ref::steal(PyCode_GetFreevars(reinterpret_cast<PyCodeObject*>(function->func_code)));
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names.get()); ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), "fn") != 0) continue;
    PyObject* inner = PyCell_GET(PyTuple_GET_ITEM(function->func_closure, i));
    if (inner && PyFunction_Check(inner)) return inner;
  }
  return callable;
}

bool Recorder::calls(PyObject* callable, const watch::Arguments& arguments) {
  seedCall_ = SeedCall::None;  // of a call that failed
  naming_.reset();
  check();
  if (stopped_) return false;
  if (PyFunction_Check(callable)) {
    if (initialises(callable, arguments) && speculative_) return stop(Why::AttemptInitialises);
    if (speculative_ && isPartOf(callable, "import_module", "importlib/__init__.py") && arguments.positional > 0 &&
        !mayImport(arguments.values[0], nullptr, nullptr)) {
      return false;
    }
    if (around::isFlagSetter(callable)) {
      size_t named = arguments.names ? static_cast<size_t>(PyTuple_GET_SIZE(arguments.names)) : 0;
      Values args(arguments.values, arguments.values + arguments.positional + named);
      if (!setsFlag(callable, args, arguments.names)) return false;
      hiding_ = callable;
      return true;
    }
    if (makesNamedTuple(callable, arguments)) return true;
    return changesSeed(callable, arguments) || setsHooks(callable, arguments) || registersHook(callable, arguments) ||
           removesHook(callable, arguments) || !stopped_;
  }
  calling_ = callable;
  return callsKnown(callable, arguments);
}

bool Recorder::callsKnown(PyObject* callable, const watch::Arguments& arguments) {
  if (PyFunction_Check(callable)) return true;
  if (speculative_) {
    if (shows(doors::isSymbol(callable) ? callable : nullptr, "it is called")) return false;
    if (std::optional<bool> known = callsStandIn(callable, arguments)) return *known;
  }
  size_t named = arguments.names ? static_cast<size_t>(PyTuple_GET_SIZE(arguments.names)) : 0;
  Values args(arguments.values, arguments.values + arguments.positional + named);
  if (Py_IS_TYPE(callable, &PyMethod_Type)) {
    PyObject* function = PyMethod_GET_FUNCTION(callable);
    if (PyFunction_Check(function)) return isLogCall(function) ? emits(callable, arguments) : true;
    args.insert(args.begin(), PyMethod_GET_SELF(callable));
    watch::Arguments all;
    all.values = args.data();
    all.positional = arguments.positional + 1;
    all.names = arguments.names;
    return callsKnown(function, all);
  }
  if (PyInstanceMethod_Check(callable)) return callsKnown(PyInstanceMethod_GET_FUNCTION(callable), arguments);
  if (isCompiled(callable)) return true;  // it calls its function here
  if (around::isCheckpoint(callable)) return around::checkpoints(*this, callable, arguments);
  if (around::isPush(callable)) return packsSaved(args);
  if (std::optional<bool> known = callsDescriptor(callable, args)) return *known;
  if (std::optional<bool> known = callsRandom(callable, args)) return *known;
  if (std::optional<bool> known = callsStorage(callable, args)) return *known;
  if (std::optional<bool> known = makesParameter(callable, args, arguments.names)) return *known;
  if (std::optional<bool> known = wraps(callable, args, arguments.names)) return *known;
  if (std::optional<bool> known = callsNumpy(callable, args, arguments.names)) return *known;
  if (PyCFunction_Check(callable) && PyCFunction_GET_SELF(callable) && PyType_Check(PyCFunction_GET_SELF(callable)) &&
      nameOf(callable) == "__new__") {
    return makes(reinterpret_cast<PyTypeObject*>(PyCFunction_GET_SELF(callable)), args);
  }
  if (initialisesException(callable)) {
    Ref self = Ref::steal(PyObject_GetAttrString(callable, "__self__"));
    PyErr_Clear();
    PyObject* error = self ? self.get() : args.empty() ? nullptr : args[0];
    if (error && placeOf(error) != kInside) return stop(Why::ChangesEarlierException);
    return true;
  }
  if (isTensorMethod(callable, "requires_grad_")) {
    if (PyObject* self = selfOf(callable)) args.insert(args.begin(), self);
    return setsRequiresGrad(args[0], args.size() > 1 ? args[1] : Py_True);
  }
  Behaviour behaviour = operations_.ofCall(callable);
  if (behaviour != Behaviour::Unknown) {
    if (PyObject* self = selfOf(callable)) args.insert(args.begin(), self);
    if (Py_IS_TYPE(callable, &_PyMethodWrapper_Type)) {
      Ref self = Ref::steal(PyObject_GetAttrString(callable, "__self__"));
      args.insert(args.begin(), self.get());
    }
    return behaves(behaviour, callable, args, arguments.names);
  }
  if (PyType_Check(callable)) return callsType(reinterpret_cast<PyTypeObject*>(callable), args, arguments.names);
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
    if (!realize(given.get(), true) || !realize(keywords.get(), true)) return false;
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
  if (isCached(callable)) {
    if (speculative_ && !mayAskCache(callable, args, arguments.names)) return false;
    return callsCached(callable, args, arguments.names);
  }
  if (PyWeakref_CheckRefExact(callable)) {
    uint32_t place = placeOf(callable);
    if (place != kInside) read(Op::Referent, place, nullptr, 0, PyWeakref_GET_OBJECT(callable));
    return true;
  }
  static PyObject* const callName = PyUnicode_InternFromString("__call__");
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    PyObject* code = lookUp(type, callName);
    if (!code) return true;  // the program will be told that it cannot be called
    if (PyFunction_Check(code)) return true;
    watch::Arguments all;
    args.insert(args.begin(), callable);
    all.values = args.data();
    all.positional = arguments.positional + 1;
    all.names = arguments.names;
    if (code != callable && !Py_IS_TYPE(code, &PyWrapperDescr_Type)) return callsKnown(code, all);
  }
  return stop({Why::CallsUnknownObject, type->tp_name});
}

// X.__new__ of a type of C: all of them are one function of C.
bool Recorder::makes(PyTypeObject* owner, const Values& args) {
  bool known = owner == &PyBaseObject_Type || owner == &PyType_Type || operations_.isValueType(owner) ||
               operations_.isIterator(owner) || PyExceptionClass_Check(reinterpret_cast<PyObject*>(owner)) ||
               operations_.ofCall(reinterpret_cast<PyObject*>(owner)) != Behaviour::Unknown;
  if (!known) return stop({Why::MakesUnknown, Operations::name(reinterpret_cast<PyObject*>(owner))});
  if (speculative_) {
    bool ofClass = !args.empty() && PyType_Check(args[0]);
    if (ofClass && !mayMake(reinterpret_cast<PyTypeObject*>(args[0]))) return false;
    if (showsInCall(Behaviour::Pure, reinterpret_cast<PyObject*>(owner), args)) return false;
  }
  if (owner == &PyBaseObject_Type) return true;
  for (PyObject* arg : args) {
    if (!realize(arg, true)) return false;
  }
  return true;
}

bool Recorder::callsType(PyTypeObject* type, const Values& args, PyObject*) {
  static PyObject* const callName = PyUnicode_InternFromString("__call__");
  static PyObject* const newName = PyUnicode_InternFromString("__new__");
  static PyObject* const initName = PyUnicode_InternFromString("__init__");
  std::string name = Operations::name(reinterpret_cast<PyObject*>(type));
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return stop({Why::MakesUnknown, name});
  if (speculative_ && !mayMake(type)) return false;
  PyObject* metaCall = lookUp(Py_TYPE(type), callName);
  if (metaCall && PyFunction_Check(metaCall)) return true;
  PyObject* make = lookUp(type, newName);
  PyObject* init = lookUp(type, initName);
  bool makesInPython = make && (PyFunction_Check(make) || Py_IS_TYPE(make, &PyStaticMethod_Type));
  bool initsInPython = init && PyFunction_Check(init);
  PyTypeObject* base = nativeBase(type);
  bool known = base == &PyBaseObject_Type || PyExceptionClass_Check(reinterpret_cast<PyObject*>(type)) ||
               operations_.isValueType(base) || base == &PyProperty_Type || (base == functionClass() && args.empty());
  if (!known && !makesInPython) return stop({Why::MakesUnknownBase, name});
  bool initKnown = !init || initsInPython || operations_.ofCall(init) != Behaviour::Unknown;
  if (!initKnown) return stop({Why::MakesUnknownInit, name});
  if (base != &PyBaseObject_Type || (!makesInPython && !initsInPython)) {
    for (PyObject* arg : args) {
      if (!realize(arg, false)) return false;
    }
  }
  return true;
}

bool Recorder::behaves(Behaviour behaviour, PyObject* callable, const Values& args, PyObject* names) {
  if (speculative_ && (showsInCall(behaviour, callable, args) || !mayCall(behaviour, callable, args))) return false;
  switch (behaviour) {
    case Behaviour::Pure:
    case Behaviour::Tensor:
      for (PyObject* arg : args) {
        if (!realize(arg, true)) return false;
      }
      return true;
    case Behaviour::Shallow:
      return true;
    case Behaviour::OfClass:
      if (nameOf(callable).starts_with("_abc_")) guards_.registrations = registeredClasses();
      if (args.size() < 2) return true;
      return belongs(args[1], args[0], nameOf(callable).find("subclass") != std::string::npos);
    case Behaviour::Belongs:
      return args.size() < 2 || belongs(args[0], args[1], nameOf(callable) == "issubclass");
    case Behaviour::Callable:
      for (PyObject* arg : args) guardSpecials(Py_TYPE(arg));
      return true;
    case Behaviour::OfError:
      if (!args.empty() && placeOf(args[0]) != kInside) {
        return stop(Why::ChangesEarlierException);
      }
      return true;
    case Behaviour::Text:
      for (PyObject* arg : args) {
        if (!tells(arg) || (!PyExceptionInstance_Check(arg) && !realize(arg, true))) return false;
      }
      return true;
    case Behaviour::Ambient:
      if (!args.empty() && nameOf(callable) == "_push_on_torch_function_stack") return meetsMode(args[0]);
      return true;
    case Behaviour::Asks:
      return asks(callable, args);
    case Behaviour::Sets:
      return setsFlag(callable, args, names);
    case Behaviour::Length:
      return args.empty() || length(args[0]);
    case Behaviour::Lookup:
      return args.size() < 2 || lookup(args[0], args[1]);
    case Behaviour::Content:
      for (PyObject* arg : args) {
        if (!realize(arg, false)) return false;
      }
      return true;
    case Behaviour::Identity:
      for (PyObject* arg : args) {
        if (findsByData(arg)) return false;
        guardSpecials(Py_TYPE(arg));
        if (isContainer(arg)) {
          if (!realize(arg, true)) return false;
        } else if (nameOf(callable) == "id" && !inHash()) {
          pin(arg);
        } else {
          distinguish(arg);
        }
      }
      return true;
    case Behaviour::Mutates:
      return mutates(callable, args, names);
    case Behaviour::ReadsAttribute: {
      if (args.size() < 2 || !PyUnicode_Check(args[1])) return true;
      Ref name = interned(args[1]);
      kept_.push_back(name);
      return attribute(args[0], name.get(), nameOf(callable) == "__getattribute__");
    }
    case Behaviour::WritesAttribute:
    case Behaviour::DeletesAttribute: {
      bool writes = behaviour == Behaviour::WritesAttribute;
      if (args.size() < (writes ? 3u : 2u) || !PyUnicode_Check(args[1])) return true;
      Ref name = interned(args[1]);
      kept_.push_back(name);
      // object.__setattr__ itself: not the setter of the class, which may have called it.
      bool plain = nameOf(callable).starts_with("__");
      return plain ? plainWrite(args[0], name.get(), writes ? args[2] : nullptr)
                   : writesAttribute(args[0], name.get(), writes ? args[2] : nullptr);
    }
    case Behaviour::Advances:
      if (!args.empty() && placeOf(args[0]) != kInside && !nameOf(callable).ends_with("next") &&
          nameOf(callable) != "__next__") {
        return stop(Why::SendsToEarlier);
      }
      return args.empty() || advances(args[0]);
    case Behaviour::Host:
      return prints(callable, args, names);
    case Behaviour::Locks:
      return args.empty() || locks(args[0], nameOf(callable));
    case Behaviour::Gradients:
      return takesGradients(args, names);
    case Behaviour::Warns:
      return warns(callable, args, names);
    case Behaviour::ContextGet: {
      if (args.empty()) return true;
      PyObject* value = nullptr;
      if (PyContextVar_Get(args[0], nullptr, &value) < 0) PyErr_Clear();
      Ref held = Ref::steal(value);
      if (contextSets_ > 0) return true;
      if (!held) return stop(Why::UnsetContextVariable);
      read(Op::ContextValue, fixed(args[0]), nullptr, 0, held.get());
      return true;
    }
    case Behaviour::ContextSet:
      contextSets_ += nameOf(callable) == "set" ? 1 : -1;
      return true;
    case Behaviour::Unknown:
      break;
  }
  return stop(unknownCall(callable));
}

// run_backward(outputs, gradients, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad)
bool Recorder::takesGradients(const Values& args, PyObject* names) {
  bool into = argumentOf(args, names, args.size(), "accumulate_grad") != Py_False;
  if (into || speculative_) return stop(Why::GradientsIntoGrad);
  tape_.allowGradients();
  takesGradients_ = true;
  return true;
}

bool Recorder::mutates(PyObject* callable, const Values& args, PyObject* names) {
  // These keep their arguments as they are; all others look into them.
  static const std::unordered_set<std::string> storing = {
      "append", "appendleft", "add", "discard", "insert", "remove", "setdefault", "__setitem__", "pop", "__delitem__"};
  static const std::unordered_set<std::string> reading = {"pop",     "popleft",     "popitem",    "sort",   "remove",
                                                          "discard", "setdefault",  "reverse",    "rotate", "clear",
                                                          "insert",  "move_to_end", "__missing__"};
  if (args.empty()) return true;
  std::string name = nameOf(callable);
  if (isTensor(args[0])) return behaves(Behaviour::Tensor, callable, args, names);
  bool outside = placeOf(args[0]) != kInside;
  bool cuts = args.size() > 2 && PySlice_Check(args[1]);
  bool spreading = !storing.contains(name) || cuts;
  size_t positional = args.size() - (names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0);
  for (size_t i = 1; spreading && i < positional; ++i) {
    if (!realize(args[i], false)) return false;
  }
  bool hashes = PyDict_Check(args[0]) || PyAnySet_Check(args[0]);
  if (args.size() > 1 && (hashes || name == "remove")) {
    if (findsByData(args[1])) return false;
    tellApart(args[1]);
  }
  if (args.size() > 1 && (name == "insert" || name == "pop" || name == "rotate") && findsByData(args[1])) return false;
  if (name == "remove" || (PyAnySet_Check(args[0]) && spreading)) {
    for (PyObject* arg : args) tellApart(arg);
  }
  if (!outside) return true;
  if (moduleOf(callable) == "_operator") return stop(Why::ChangesByOperator);
  if (!isContainer(args[0])) return stop({Why::ChangesOutside, Py_TYPE(args[0])->tp_name});
  if (reading.contains(name) || spreading) {
    if (!realize(args[0], name == "sort" || name == "remove")) return false;
  }
  if (!beforeWrite(args[0])) return false;
  bool keyed = PyDict_Check(args[0]) && (name == "__setitem__" || name == "__delitem__");
  if (keyed && args.size() > 1) {
    kept_.push_back(Ref::borrow(args[1]));
    written_.emplace(args[0], args[1]);
  }
  if (PyList_Check(args[0]) && args.size() > 1 && (name == "__setitem__" || name == "__delitem__")) {
    if (!realize(args[0], false)) return false;
  }
  // Done again by the method of the builtin type, so that no override runs.
  PyObject* method = callable;
  Ref unbound;
  if (selfOf(callable) || Py_IS_TYPE(callable, &_PyMethodWrapper_Type)) {
    Ref key = Ref::steal(PyUnicode_InternFromString(name.c_str()));
    unbound = Ref::borrow(_PyType_Lookup(nativeBase(Py_TYPE(args[0])), key.get()));
    if (!unbound) return stop({Why::ChangesBy, name});
    method = unbound.get();
  }
  // What it looks into may change after it has.
  Values given = args;
  std::vector<Ref> copies;
  Py_ssize_t length = -1;
  for (size_t i = 1; spreading && i < positional; ++i) {
    PyObject* arg = given[i];
    if (placeOf(arg) != kInside || isAtom(arg) || PySlice_Check(arg) || PyTuple_Check(arg)) continue;
    if (PyDict_CheckExact(arg)) {
      copies.push_back(Ref::steal(PyDict_Copy(arg)));
    } else if (PyList_CheckExact(arg) || PyAnySet_CheckExact(arg)) {
      copies.push_back(Ref::steal(PySequence_Tuple(arg)));
    } else if (PyList_CheckExact(args[0]) && name == "extend") {
      length = PyList_GET_SIZE(args[0]);
      continue;
    } else if (!(name == "sort" || PyFunction_Check(arg))) {
      return stop(Why::ChangesByIterator);
    } else {
      continue;
    }
    given[i] = copies.back().get();
  }
  // Written elements have been looked at before; a call may fail.
  bool isCall = calling_ != nullptr;
  if (isCall) pending_.push_back({calling_, effects_.size(), length});
  return effect(method, given, names);
}

}  // namespace saker::frontend
