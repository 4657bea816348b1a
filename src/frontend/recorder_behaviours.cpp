// What calls of C code read and do, as the table of operations tells it.
#include <unordered_set>

#include "frontend/callables.h"
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "host/objects.h"
#include "watch/loop.h"

namespace saker::frontend {

namespace {

// __hash__ by id(): as object's own, it tells objects apart.
bool inHash() {
  watch::Place place = watch::place();
  return place.code && PyUnicode_CompareWithASCIIString(place.code->co_name, "__hash__") == 0;
}

// C code that keeps a function, or calls it, and does not look at which one it is.
bool onlyCalls(PyObject* callable) {
  if (callable == reinterpret_cast<PyObject*>(&PyMap_Type) || callable == reinterpret_cast<PyObject*>(&PyFilter_Type)) {
    return true;
  }
  if (PyType_Check(callable)) {
    return std::string_view(reinterpret_cast<PyTypeObject*>(callable)->tp_name) == "functools.partial";
  }
  return PyCFunction_Check(callable) && moduleOf(callable) == "_functools" && nameOf(callable) == "reduce";
}

}  // namespace

// X.__new__ of a type of C: all of them are one function of C.
bool Recorder::makes(PyTypeObject* owner, const Values& args) {
  bool known = owner == &PyBaseObject_Type || owner == &PyType_Type || operations_.isValueType(owner) ||
               operations_.isIterator(owner) || PyExceptionClass_Check(reinterpret_cast<PyObject*>(owner)) ||
               operations_.ofCall(reinterpret_cast<PyObject*>(owner)) != Behaviour::Unknown;
  if (!known) return stop({Why::MakesUnknown, Operations::name(reinterpret_cast<PyObject*>(owner))});
  if (speculative_) {
    bool ofClass = !args.empty() && PyType_Check(args[0]);
    if (ofClass && !subjects_->attempt.mayMake(reinterpret_cast<PyTypeObject*>(args[0]))) return false;
    if (subjects_->attempt.showsInCall(Behaviour::Pure, reinterpret_cast<PyObject*>(owner), args)) return false;
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
  if (speculative_ && !subjects_->attempt.mayMake(type)) return false;
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
  if (speculative_ && (subjects_->attempt.showsInCall(behaviour, callable, args) ||
                       !subjects_->attempt.mayCall(behaviour, callable, args)))
    return false;
  switch (behaviour) {
    case Behaviour::Pure:
    case Behaviour::Tensor:
      for (PyObject* arg : args) {
        if (provenance_.isFresh(arg) && onlyCalls(callable)) continue;  // it is entered
        bool deep = !Arrays::givesElementsOn(callable) || !subjects_->arrays.holdsArrays(arg);
        if (!realize(arg, deep)) return false;
      }
      return !subjects_->arrays.takesUnseen(callable, args) || stop(Why::ArrayInside);
    case Behaviour::Shallow:
      return true;
    case Behaviour::OfClass:
      if (nameOf(callable).starts_with("_abc_")) guards().registrations = registeredClasses();
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
    case Behaviour::Asks:
    case Behaviour::Sets:
    case Behaviour::Host:
    case Behaviour::Locks:
    case Behaviour::Gradients:
    case Behaviour::Warns:
      return subjects_
          ->first(Question::Behaves, [&](Subject& each) { return each.behaves(behaviour, callable, args, names); })
          .value_or(true);
    case Behaviour::Length:
      return args.empty() || length(args[0]);
    case Behaviour::Lookup:
      return args.size() < 2 || lookup(args[0], args[1]);
    case Behaviour::Content:
      for (PyObject* arg : args) {
        if (provenance_.isFresh(arg) && onlyCalls(callable)) continue;
        if (!realize(arg, false)) return false;
      }
      return true;
    case Behaviour::Identity:
      for (PyObject* arg : args) {
        if (subjects_->arrays.findsByData(arg)) return false;
        guardSpecials(Py_TYPE(arg));
        if (isContainer(arg)) {
          if (!realize(arg, true)) return false;
        } else if (nameOf(callable) == "id" && !inHash()) {
          pin(arg);
        } else {
          provenance_.distinguish(arg);
        }
      }
      return true;
    case Behaviour::Mutates:
      return mutates(callable, args, names);
    case Behaviour::ReadsAttribute: {
      if (args.size() < 2 || !PyUnicode_Check(args[1])) return true;
      Ref name = interned(args[1]);
      keep(name);
      return attribute(args[0], name.get(), nameOf(callable) == "__getattribute__");
    }
    case Behaviour::WritesAttribute:
    case Behaviour::DeletesAttribute: {
      bool writes = behaviour == Behaviour::WritesAttribute;
      if (args.size() < (writes ? 3u : 2u) || !PyUnicode_Check(args[1])) return true;
      Ref name = interned(args[1]);
      keep(name);
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
    case Behaviour::ContextGet: {
      if (args.empty()) return true;
      PyObject* value = nullptr;
      if (PyContextVar_Get(args[0], nullptr, &value) < 0) PyErr_Clear();
      Ref held = Ref::steal(value);
      if (contextSets_ > 0) return true;
      if (!held) return stop(Why::UnsetContextVariable);
      read(GuardOp::ContextValue, fixed(args[0]), nullptr, 0, held.get());
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
    if (subjects_->arrays.findsByData(args[1])) return false;
    tellApart(args[1]);
  }
  if (args.size() > 1 && (name == "insert" || name == "pop" || name == "rotate") &&
      subjects_->arrays.findsByData(args[1]))
    return false;
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
    keep(Ref::borrow(args[1]));
    effects_.write(args[0], args[1]);
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
  if (isCall) effects_.begin(calling_, length);
  return effect(method, given, names);
}

}  // namespace saker::frontend
