#include <torch/csrc/autograd/forward_grad.h>

#include <algorithm>
#include <unordered_set>

#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "frontend/symbol_doors.h"
#include "host/symbol_watch.h"
#include "watch/loop.h"

namespace saker::frontend {

namespace {

// Takes references to the parts of a functools.lru_cache: the function, the dict of results, and others.
int collect(PyObject* part, void* parts) {
  static_cast<std::vector<PyObject*>*>(parts)->push_back(part);
  return 0;
}

// The dict in which a functools.lru_cache keeps results; nullptr where it is not where it is expected.
PyObject* resultsOf(PyObject* cached) {
  std::vector<PyObject*> parts;
  Py_TYPE(cached)->tp_traverse(cached, &collect, &parts);
  PyObject** attributes = _PyObject_GetDictPtr(cached);
  PyObject* found = nullptr;
  for (PyObject* part : parts) {
    if (!PyDict_CheckExact(part) || (attributes && part == *attributes)) continue;
    if (found) return nullptr;
    found = part;
  }
  return found;
}

bool isTyped(PyObject* cached) {
  watch::Pause pause;
  Ref parameters = Ref::steal(PyObject_CallMethod(cached, "cache_parameters", nullptr));
  PyErr_Clear();
  bool told = parameters && PyDict_Check(parameters.get());
  PyObject* typed = told ? PyDict_GetItemString(parameters.get(), "typed") : nullptr;
  return typed != Py_False;
}

// Hashing and comparing it runs no code of the program.
bool isPlainKey(PyObject* object) {
  if (PyTuple_CheckExact(object)) {  // such as that of Union[Tensor, GradientEdge], which typing keeps
    PyObject** items = PySequence_Fast_ITEMS(object);
    return std::all_of(items, items + PyTuple_GET_SIZE(object), isPlainKey);
  }
  if (isNamed(object) || (isAtom(object) && !isDerivedValue(object))) return true;
  static PyObject* const hash = PyUnicode_InternFromString("__hash__");
  PyObject* found = _PyType_Lookup(Py_TYPE(object), hash);
  return isPythonClass(Py_TYPE(object)) && comparesByIdentity(object) && found && !PyFunction_Check(found);
}

// torch.func switches PyTorch's compiler of backwards off and on again around its gradients. Is it off anyway? The
// function itself tells what was set before.
bool leavesItOff(PyObject* callable, const std::vector<PyObject*>& args) {
  if (args.size() != 2 || args[0] != Py_None) return false;
  watch::Pause pause;
  Ref before = Ref::steal(PyObject_CallFunctionObjArgs(callable, Py_None, Py_False, nullptr));
  bool told = before && PyTuple_Check(before.get()) && PyTuple_GET_SIZE(before.get()) == 2;
  if (told) Ref::steal(PyObject_Call(callable, before.get(), nullptr));
  bool off = told && PyTuple_GET_ITEM(before.get(), 0) == Py_None;
  PyErr_Clear();
  return off;
}

}  // namespace

using ForwardLevel = torch::autograd::ForwardADLevel;

// A call that is given up leaves its level of forward mode open.
Attempt::~Attempt() {
  if (entered_ && ForwardLevel::try_get_by_idx(0)) ForwardLevel::release_idx(0);
}

// An object with a finalizer does something when it goes away; a class is known to its bases.
bool Attempt::mayMake(PyTypeObject* type) {
  static PyObject* const finalizer = PyUnicode_InternFromString("__del__");
  if (PyType_IsSubtype(type, &PyType_Type)) return stop(Why::AttemptMakesClass);
  if (_PyType_Lookup(type, finalizer)) return stop({Why::AttemptFinalizer, type->tp_name});
  return true;
}

bool Attempt::mayCall(Behaviour behaviour, PyObject* callable, const Values& args) {
  if (behaviour == Behaviour::Ambient) {
    std::string name = nameOf(callable);
    if (name == "set_autograd_compiler" && !leavesItOff(callable, args)) {
      return stop({Why::AttemptCalls, Operations::name(callable)});
    }
    // There is one level of forward mode in the process: entering it where it is open raises.
    if (name == "_enter_dual_level" && !ForwardLevel::try_get_by_idx(0)) entered_ = true;
    if (name == "_exit_dual_level") entered_ = false;
  }
  if (behaviour != Behaviour::Shallow) return true;
  if (nameOf(callable) == "__build_class__") return stop(Why::AttemptMakesClass);
  bool makesClass = callable == reinterpret_cast<PyObject*>(&PyType_Type) && args.size() > 1;
  return !makesClass || stop(Why::AttemptMakesClass);
}

// A cache that holds a result gives it; one that does not would keep what the attempt computes.
bool Attempt::mayAskCache(PyObject* cached, const Values& args, PyObject* names) {
  for (PyObject* arg : args) {
    if (shows(doors::symbolIn(arg), "it is an argument of a cached function")) return false;
  }
  PyObject* results = resultsOf(cached);
  bool known = results && !(names && PyTuple_GET_SIZE(names) > 0) && !isTyped(cached);
  for (PyObject* arg : args) known = known && isPlainKey(arg);
  if (known) {
    bool alone = args.size() == 1 && (PyUnicode_CheckExact(args[0]) || PyLong_CheckExact(args[0]));
    Ref key = alone ? Ref::borrow(args[0]) : Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(args.size())));
    for (size_t i = 0; !alone && i < args.size(); ++i) {
      PyTuple_SET_ITEM(key.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
    }
    known = PyDict_GetItemWithError(results, key.get()) != nullptr;
    PyErr_Clear();
  }
  return known || stop({Why::AttemptFillsCache, Operations::name(cached)});
}

// A module that is loaded now is loaded for good, with all that it makes.
bool Attempt::mayImport(PyObject* name, PyObject* fromlist, PyObject* level) {
  PyObject* modules = PyImport_GetModuleDict();
  Ref full = Ref::borrow(name);
  if (level && PyLong_Check(level) && PyLong_AsLong(level) > 0) {
    PyObject* globals = PyEval_GetGlobals();
    PyObject* package = globals ? PyDict_GetItemString(globals, "__package__") : nullptr;
    if (!package || !PyUnicode_Check(package)) return stop(Why::AttemptImportsRelative);
    Ref dots = Ref::steal(PyUnicode_FromString(std::string(static_cast<size_t>(PyLong_AsLong(level)), '.').c_str()));
    Ref relative = Ref::steal(PyUnicode_Concat(dots.get(), name));
    watch::Pause pause;
    Ref util = Ref::steal(PyImport_ImportModule("importlib.util"));
    full = Ref::steal(util ? PyObject_CallMethod(util.get(), "resolve_name", "OO", relative.get(), package) : nullptr);
    PyErr_Clear();
  }
  PyObject* module = full ? PyDict_GetItemWithError(modules, full.get()) : nullptr;
  if (!module) return stop(Why::AttemptImports);
  for (Py_ssize_t i = 0; fromlist && PyTuple_Check(fromlist) && i < PyTuple_GET_SIZE(fromlist); ++i) {
    PyObject* wanted = PyTuple_GET_ITEM(fromlist, i);
    PyObject* held = PyModule_Check(module) ? PyDict_GetItemWithError(PyModule_GetDict(module), wanted) : nullptr;
    Ref sub = Ref::steal(PyUnicode_FromFormat("%U.%U", full.get(), wanted));
    if (!held && !(sub && PyDict_GetItemWithError(modules, sub.get()))) {
      return stop(Why::AttemptImports);
    }
  }
  return true;
}

bool Attempt::shows(PyObject* symbol, const char* how) {
  if (!symbol) return false;
  if (SymbolWatch* watch = SymbolWatch::current()) watch->saw(symbol);
  stop({Why::SeesSize, how});
  return true;
}

bool Attempt::showsInCall(Behaviour behaviour, PyObject* callable, const Values& args) {
  if (PyObject* symbol = doors::seenByCall(behaviour, callable, args)) {
    return shows(symbol, ("it is given to " + Operations::name(callable)).c_str());
  }
  if (behaviour != Behaviour::Pure && behaviour != Behaviour::Mutates) return false;
  PyObject* unseen = doors::callsUnseen(args);
  if (unseen) stop({Why::GivesToC, Operations::name(unseen)});
  return unseen != nullptr;
}

}  // namespace saker::frontend
