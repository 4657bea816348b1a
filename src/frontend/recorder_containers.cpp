// Containers and operators.

#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"
#include "frontend/symbol_doors.h"

#include "host/objects.h"
namespace saker::frontend {

namespace {

// What an operator in place does to a container, as a method.
const char* methodOf(watch::Binary op, PyObject* left, PyObject* right) {
  using watch::Binary;
  if (PyList_CheckExact(left)) {
    return op == Binary::Add && (PyList_CheckExact(right) || PyTuple_CheckExact(right)) ? "extend" : nullptr;
  }
  if (PyDict_CheckExact(left)) return op == Binary::Or && PyDict_CheckExact(right) ? "update" : nullptr;
  if (!PySet_CheckExact(left) || !PyAnySet_Check(right)) return nullptr;
  switch (op) {
    case Binary::Or:
      return "update";
    case Binary::And:
      return "intersection_update";
    case Binary::Subtract:
      return "difference_update";
    case Binary::Xor:
      return "symmetric_difference_update";
    default:
      return nullptr;
  }
}

bool isIterator(PyObject* object) {
  return Py_TYPE(object)->tp_iternext && Py_TYPE(object)->tp_iternext != &_PyObject_NextNotImplemented;
}

// torch.return_types.max and its like: a tuple of C with names for its elements.
bool isNamedResult(PyTypeObject* type) {
  static PyObject* const fields = PyUnicode_InternFromString("n_sequence_fields");
  return type->tp_base == &PyTuple_Type && _PyType_Lookup(type, fields) && !isPythonClass(type);
}

constexpr int kDeepestValue = 12;

const char* const kLength[] = {"__bool__", "__len__", nullptr};
const char* const kCompare[] = {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", nullptr};
const char* const kArithmetic[] = {
    "__add__",     "__radd__",     "__sub__",      "__rsub__",      "__mul__",    "__rmul__",
    "__truediv__", "__rtruediv__", "__floordiv__", "__rfloordiv__", "__mod__",    "__rmod__",
    "__pow__",     "__rpow__",     "__and__",      "__rand__",      "__or__",     "__ror__",
    "__xor__",     "__rxor__",     "__lshift__",   "__rshift__",    "__matmul__", "__rmatmul__",
    "__iadd__",    "__isub__",     "__imul__",     "__itruediv__",  "__ior__",    "__iand__",
    "__neg__",     "__pos__",      "__invert__",   "__imatmul__",   "__ixor__",   nullptr};
const char* const kGetItem[] = {"__getitem__", "__class_getitem__", nullptr};
const char* const kSetItem[] = {"__setitem__", "__delitem__", nullptr};
const char* const kContains[] = {"__contains__", "__iter__", nullptr};
const char* const kIterate[] = {"__iter__", "__getitem__", nullptr};
const char* const kNext[] = {"__next__", nullptr};
const char* const kText[] = {"__format__", "__str__", "__repr__", nullptr};

}  // namespace

PyObject* Recorder::behindProxy(PyObject* object) {
  struct Proxy {
    PyObject_HEAD PyObject* mapping;
  };
  if (!Py_IS_TYPE(object, &PyDictProxy_Type)) return object;
  PyObject* mapping = reinterpret_cast<Proxy*>(object)->mapping;
  if (!PyDict_Check(mapping)) return object;
  if (placeOf(object) != kInside) {
    pin(object);
    fixed(mapping);
  }
  return mapping;
}

bool Recorder::isContainer(PyObject* object) const {
  return PyList_Check(object) || PyTuple_Check(object) || PyDict_Check(object) || PyAnySet_Check(object) ||
         isDeque(object);
}

// The operators of a heap type are Python functions, or C code of a base whose operators are known.
bool Recorder::slotIsKnown(PyObject* object, const char* const* names) {
  PyTypeObject* type = Py_TYPE(object);
  guardSpecials(type);
  if (isTensor(object) || isAtom(object) || named(object) || operations_.isIterator(type) ||
      PyType_IsSubtype(type, &Py_GenericAliasType)) {
    return true;
  }
  if (isNamedResult(type)) return true;
  // A view or proxy from outside shows something that no guard has seen.
  if (operations_.isValueType(type)) return isContainer(object) || PySlice_Check(object) || placeOf(object) == kInside;
  if (type == &PyMethod_Type || type == &PyGen_Type || type == &PySuper_Type || PyExceptionInstance_Check(object))
    return true;
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  for (; *names; ++names) {
    Ref name = Ref::steal(PyUnicode_InternFromString(*names));
    PyObject* found = lookUp(type, name.get());
    if (!found || PyFunction_Check(found) || found == Py_None) continue;
    if (operations_.ofCall(found) == Behaviour::Identity) provenance_.distinguish(object);
    if (operations_.ofCall(found) == Behaviour::Unknown && Py_TYPE(found) != &PyClassMethod_Type &&
        Py_TYPE(found) != &PyClassMethodDescr_Type) {
      return false;
    }
  }
  return true;
}

bool Recorder::operand(PyObject* object, bool deep) { return isContainer(object) ? realize(object, deep) : true; }

bool Recorder::length(PyObject* object) {
  object = behindProxy(object);
  if (subjects_->arrays.arrayOf(object)) return true;  // its sizes are guarded
  uint32_t place = placeOf(object);
  if (!isContainer(object)) {
    return slotIsKnown(object, kLength) ? true : stop({Why::AsksLength, Py_TYPE(object)->tp_name});
  }
  if (place == kInside) return true;
  if (effects_.changed(object)) return realize(object, false);
  checkIs(GuardOp::Length, place, nullptr, lengthOf(object));
  return true;
}

// Guards what an outside container held when the call began.
void Recorder::realizeElements(PyObject* object, uint32_t place) {
  PyObject* before = effects_.before(object);
  PyObject* held = before ? before : object;
  if (PyDict_Check(held)) {
    Ref tuple = keysInOrder(held);
    checkIs(GuardOp::Keys, place, tuple.get());
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) {
      PyObject* key = PyTuple_GET_ITEM(tuple.get(), i);
      noteFixed(key);
      read(GuardOp::Key, place, key, 0, PyDict_GetItemWithError(held, key));
    }
  } else if (PyAnySet_Check(object)) {
    Ref tuple = itemsOf(held);
    checkIs(GuardOp::Elements, place, tuple.get());
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) noteFixed(PyTuple_GET_ITEM(tuple.get(), i));
  } else {
    Ref items = itemsOf(held);
    Py_ssize_t count = PyTuple_GET_SIZE(items.get());
    checkIs(GuardOp::Length, place, nullptr, count);
    for (Py_ssize_t i = 0; i < count; ++i) read(GuardOp::Item, place, nullptr, i, PyTuple_GET_ITEM(items.get(), i));
  }
}

bool Recorder::realizeOnce(PyObject* object, uint32_t place) {
  bool isNew = realized_.insert(object).second;
  if (isNew) realizeElements(object, place);
  return isNew;
}

void Recorder::forgetRealized() {
  std::erase_if(realized_, [&](PyObject* object) { return placeOf(object) == kInside; });
}

bool Recorder::realize(PyObject* object, bool deep, int depth) {
  object = behindProxy(object);
  if (subjects_->arrays.arrayOf(object)) return stop(Why::ArrayInside);
  guardSpecials(Py_TYPE(object));
  if (depth > kDeepestValue || isAtom(object) || named(object) || isTensor(object)) return true;
  if (!isContainer(object)) {
    if (isIterator(object) && placeOf(object) != kInside) return subjects_->iterators.consumes(object);
    if (PyWeakref_CheckRefExact(object)) return true;  // calling it is told
    if (Py_IS_TYPE(object, &PyMethod_Type) || isPythonClass(Py_TYPE(object))) return true;
    if (placeOf(object) == kInside || PySlice_Check(object)) return true;
    if (operations_.isIterator(Py_TYPE(object)) || isIterator(object)) return true;
    if (std::string_view(Py_TYPE(object)->tp_name).starts_with("pybind11_builtins."))
      return true;  // part of a function
    return stop({Why::LooksInto, Py_TYPE(object)->tp_name});
  }
  uint32_t place = placeOf(object);
  if (place != kInside) realizeOnce(object, place);
  if (!deep) return true;
  if (PyDict_Check(object)) {
    Py_ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(object, &position, &key, &value)) {
      if (!realize(key, true, depth + 1) || !realize(value, true, depth + 1)) return false;
    }
  } else if (PyList_Check(object) || PyTuple_Check(object)) {
    for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) {
      if (!realize(PySequence_Fast_ITEMS(object)[i], true, depth + 1)) return false;
    }
  }
  return true;
}

// A key is looked up in a container: an element is read, or its absence.
bool Recorder::lookup(PyObject* container, PyObject* key) {
  container = behindProxy(container);
  if (subjects_->arrays.findsByData(key)) return false;
  uint32_t place = placeOf(container);
  if (isTensor(container)) return realize(key, true);
  if (!isContainer(container)) {
    return slotIsKnown(container, kGetItem) ? true : stop({Why::LooksInto, Py_TYPE(container)->tp_name});
  }
  if (!isAtom(key) && !named(key)) {
    bool hashes = PyDict_Check(container) || PyAnySet_Check(container);
    if (hashes && comparesInPython(key) && (place != kInside || placeOf(key) != kInside)) {
      return stop(Why::LooksForKey);
    }
    if (isContainer(key) && !realize(key, true)) return false;
    if (place != kInside && !isContainer(key) && !PySlice_Check(key)) {
      pin(key);
    } else {
      tellApart(key);
    }
  }
  if (place == kInside) return true;
  if (PyDict_Check(container)) {
    PyObject* value = PyDict_GetItemWithError(container, key);
    if (PyErr_Occurred()) PyErr_Clear();  // unhashable: the program will be told
    if (written(container, key)) return true;
    if (effects_.changed(container) && !isAtom(key)) return realize(container, false);
    if (PyObject* before = effects_.before(container); before && PyDict_GetItemWithError(before, key) != value) {
      return true;  // what the call wrote
    }
    if (value) {
      read(GuardOp::Key, place, key, 0, value);
    } else if (PyObject_Hash(key) != -1) {
      checkIs(GuardOp::NoKey, place, key);
      if (Py_TYPE(container) != &PyDict_Type && !PyDict_CheckExact(container)) {
        static PyObject* const missing = PyUnicode_InternFromString("__missing__");
        PyObject* found = lookUp(Py_TYPE(container), missing);
        if (found && !PyFunction_Check(found)) {
          static PyObject* const factory = PyUnicode_InternFromString("default_factory");
          if (isDefaultDict(container) && !attribute(container, factory, /*plain=*/true)) return false;
          if (speculative_) return stop(Why::EntersDefault);
          entering_ = {container, key};
        }
      }
    } else {
      PyErr_Clear();
    }
    return true;
  }
  if (effects_.changed(container) || !PyLong_Check(key) || PyAnySet_Check(container) || isDeque(container)) {
    return realize(container, false);
  }
  Py_ssize_t index = PyLong_AsSsize_t(key), size = Py_SIZE(container);
  if (index == -1 && PyErr_Occurred()) PyErr_Clear();
  if (index < 0 || index >= size) {
    checkIs(GuardOp::Length, place, nullptr, size);
    index += index < 0 ? size : 0;
  }
  if (index >= 0 && index < size) read(GuardOp::Item, place, nullptr, index, PySequence_Fast_ITEMS(container)[index]);
  return true;
}

bool Recorder::writable(PyObject* container, PyObject* key, PyObject* value) const {
  if (PyDict_Check(container)) {
    bool hashable = PyObject_Hash(key) != -1 || !PyErr_Occurred();
    PyErr_Clear();
    return hashable && (value || PyDict_GetItemWithError(container, key));
  }
  if (!PyLong_Check(key)) return true;
  Py_ssize_t index = PyLong_AsSsize_t(key), size = lengthOf(container);
  if (index == -1 && PyErr_Occurred()) PyErr_Clear();
  return index >= -size && index < size;
}

// The first write to an outside container: what it held decides later reads.
bool Recorder::beforeWrite(PyObject* container) {
  return effects_.remember(container) || stop({Why::ChangesContainer, Py_TYPE(container)->tp_name});
}

void Recorder::entered(PyObject* dict, PyObject* key, PyObject* value) {
  static PyObject* const set = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__setitem__");
  if (stopped_ || PyDict_GetItemWithError(dict, key) != value) return PyErr_Clear();
  // As it was before: the key was not there.
  if (!effects_.changed(dict)) {
    if (!beforeWrite(dict)) return;
    PyDict_DelItem(effects_.before(dict), key);
  }
  keep(Ref::borrow(key));
  effects_.write(dict, key);
  effect(set, {dict, key, value});
}

bool Recorder::readsItem(PyObject* container, PyObject* key) {
  check();
  if (stopped_) return false;
  if (speculative_ && subjects_->attempt.shows(doors::seenByItem(container, key), "it is looked up")) return false;
  does("indexing a tensor");
  if (PyType_Check(container)) {  // list[int]
    static PyObject* const getItem = PyUnicode_InternFromString("__class_getitem__");
    guardSpecials(Py_TYPE(container));
    lookUp(reinterpret_cast<PyTypeObject*>(container), getItem);
    return true;
  }
  container = behindProxy(container);
  if (Answer known = subjects_->arrays.item(container, key, nullptr, false)) return *known;
  if (subjects_->arrays.findsByData(key)) return false;
  if (!isContainer(container)) {
    if (!slotIsKnown(container, kGetItem)) return stop({Why::LooksInto, Py_TYPE(container)->tp_name});
    return isTensor(container) ? realize(key, true) : true;
  }
  if (!slotIsKnown(container, kGetItem)) return stop({Why::LooksInto, Py_TYPE(container)->tp_name});
  static PyObject* const getItem = PyUnicode_InternFromString("__getitem__");
  PyObject* own = lookUp(Py_TYPE(container), getItem);
  if (own && PyFunction_Check(own)) return true;
  return lookup(container, key);
}

bool Recorder::writesItem(PyObject* container, PyObject* key, PyObject* value) {
  check();
  if (stopped_) return false;
  if (speculative_ && subjects_->attempt.shows(doors::seenByItem(container, key), "it becomes a key")) return false;
  if (Answer known = subjects_->arrays.item(container, key, value, true)) return *known;
  if (subjects_->arrays.findsByData(key)) return false;
  if (isTensor(container)) return realize(key, true) && (!value || realize(value, true));
  if (!slotIsKnown(container, kSetItem)) return stop({Why::WritesInto, Py_TYPE(container)->tp_name});
  static PyObject* const setName = PyUnicode_InternFromString("__setitem__");
  static PyObject* const deleteName = PyUnicode_InternFromString("__delitem__");
  PyObject* found = lookUp(Py_TYPE(container), value ? setName : deleteName);
  if (!found || PyFunction_Check(found)) return true;
  std::vector<PyObject*> args = {container, key};
  if (value) args.push_back(value);
  if (placeOf(container) != kInside && isContainer(container)) {
    if (!value && !lookup(container, key)) return false;
    if (!PyDict_Check(container) && !realize(container, false)) return false;
    if (!writable(container, key, value)) return true;  // the program will be told
    bool cut = !PyDict_Check(container) && !PyLong_Check(key);
    if (cut && value && !(PyList_CheckExact(value) || PyTuple_CheckExact(value))) {
      return stop(Why::WritesSlice);
    }
    if (cut && reinterpret_cast<PySliceObject*>(key)->step != Py_None) return stop(Why::WritesSteps);
  }
  calling_ = nullptr;
  return mutates(found, args, nullptr);
}

bool Recorder::iterates(PyObject* iterable) {
  check();
  if (stopped_) return false;
  if (speculative_ && subjects_->attempt.shows(doors::isSymbol(iterable) ? iterable : nullptr, "it is iterated over"))
    return false;
  iterable = behindProxy(iterable);
  if (isContainer(iterable)) {
    static PyObject* const iterate = PyUnicode_InternFromString("__iter__");
    PyObject* own = lookUp(Py_TYPE(iterable), iterate);
    if (own && PyFunction_Check(own)) return true;
    return realize(iterable, false);
  }
  if (isIterator(iterable)) {
    if (placeOf(iterable) != kInside && !(Py_TYPE(iterable)->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
      return subjects_->iterators.consumes(iterable);
    }
    return true;
  }
  return slotIsKnown(iterable, kIterate) ? true : stop({Why::IteratesOver, Py_TYPE(iterable)->tp_name});
}

bool Recorder::advances(PyObject* iterator) {
  if (stopped_) return false;
  PyTypeObject* type = Py_TYPE(iterator);
  if (operations_.isIterator(type) || type == &PyGen_Type || type == &PyCoro_Type) {
    return subjects_->iterators.consumes(iterator);
  }
  if (slotIsKnown(iterator, kNext)) return true;
  return stop({Why::IteratesOver, type->tp_name});
}

bool Recorder::spreads(PyObject* iterable, PyObject* into) {
  check();
  if (stopped_) return false;
  if (speculative_ && into && PyAnySet_Check(into) &&
      subjects_->attempt.shows(doors::symbolIn(iterable), "it enters a set")) {
    return false;
  }
  if (into && placeOf(into) != kInside) return stop(Why::ChangesByOperator);
  if (isContainer(iterable)) return realize(iterable, false);
  return iterates(iterable);
}

bool Recorder::unary(watch::Unary op, PyObject* operand) {
  check();
  if (stopped_) return false;
  if (speculative_ && subjects_->attempt.shows(doors::seenByUnary(op, operand), "its bits are inverted")) return false;
  does(op == watch::Unary::Truth ? "bool() of a tensor" : op == watch::Unary::Not ? "`not` of a tensor" : "");
  if (Answer known = subjects_->arrays.unary(op, operand)) return *known;
  if (op == watch::Unary::Truth || op == watch::Unary::Not) {
    if (isContainer(operand)) {
      static PyObject* const truth = PyUnicode_InternFromString("__bool__");
      static PyObject* const len = PyUnicode_InternFromString("__len__");
      for (PyObject* name : {truth, len}) {
        PyObject* own = lookUp(Py_TYPE(operand), name);
        if (own && PyFunction_Check(own)) return true;
      }
      uint32_t place = placeOf(operand);
      if (place == kInside) return true;
      if (effects_.changed(operand)) return realize(operand, false);
      Py_ssize_t count = lengthOf(operand);
      if (provenance_.first(GuardOp::Empty, place, nullptr)) checkIs(GuardOp::Empty, place, nullptr, count == 0);
      return true;
    }
    if (slotIsKnown(operand, kLength)) return true;
    return stop({Why::TruthOf, Py_TYPE(operand)->tp_name});
  }
  return slotIsKnown(operand, kArithmetic) ? true : stop({Why::ComputesWith, Py_TYPE(operand)->tp_name});
}

bool Recorder::binary(watch::Binary op, bool inplace, PyObject* left, PyObject* right) {
  check();
  if (stopped_) return false;
  if (speculative_ && subjects_->attempt.shows(doors::seenByBinary(op, left, right), "an operator that symbols lack"))
    return false;
  if (Answer known = subjects_->arrays.binary(op, inplace, left, right)) return *known;
  if (op == watch::Binary::Remainder && (PyUnicode_Check(left) || PyBytes_Check(left)) && !tells(right)) return false;
  for (PyObject* each : {left, right}) {
    if (!slotIsKnown(each, kArithmetic)) return stop({Why::ComputesWith, Py_TYPE(each)->tp_name});
    if (!operand(each, false)) return false;
  }
  if (!inplace || !isContainer(left) || PyTuple_Check(left) || placeOf(left) == kInside) return true;
  const char* method = methodOf(op, left, right);
  if (!method) return stop(Why::ChangesByOperator);
  Ref unbound = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(left)), method));
  calling_ = nullptr;  // with these operands it does not fail
  return mutates(unbound.get(), {left, right}, nullptr);
}

bool Recorder::compares(int op, PyObject* left, PyObject* right) {
  check();
  if (stopped_) return false;
  if (speculative_ && subjects_->attempt.shows(doors::seenByComparison(left, right), "it is compared with an object"))
    return false;
  if (Answer known = subjects_->arrays.compares(op, left, right)) return *known;
  for (PyObject* each : {left, right}) {
    if (!slotIsKnown(each, kCompare)) return stop({Why::Compares, Py_TYPE(each)->tp_name});
    if (!operand(each, true)) return false;
    if (isContainer(each) || comparesByIdentity(each)) tellApart(each);
  }
  return true;
}

bool Recorder::contains(PyObject* container, PyObject* item) {
  check();
  if (stopped_ || subjects_->arrays.findsByData(item) || subjects_->arrays.findsByData(container)) return false;
  if (speculative_ &&
      subjects_->attempt.shows(doors::seenByContains(container, item), "a container is searched for it"))
    return false;
  container = behindProxy(container);
  if (isTensor(container)) return true;
  if (!slotIsKnown(container, kContains)) return stop({Why::Searches, Py_TYPE(container)->tp_name});
  static PyObject* const name = PyUnicode_InternFromString("__contains__");
  PyObject* own = lookUp(Py_TYPE(container), name);
  if (own && PyFunction_Check(own)) return true;
  if (PyDict_Check(container)) return lookup(container, item);
  if (!isContainer(container)) return true;
  if (!realize(container, true) || !operand(item, true)) return false;
  tellApart(container);
  tellApart(item);
  return true;
}

bool Recorder::formats(PyObject* value, int, PyObject*) {
  check();
  if (stopped_) return false;
  if (speculative_ && subjects_->attempt.shows(doors::symbolIn(value), "it is formatted")) return false;
  if (subjects_->arrays.arrayOf(value)) return stop(Why::ArrayFormats);
  if (!slotIsKnown(value, kText)) return stop({Why::Formats, Py_TYPE(value)->tp_name});
  return tells(value) && (PyExceptionInstance_Check(value) || realize(value, true));
}

bool Recorder::matches(PyObject* subject, PyObject* cls, PyObject* names) {
  check();
  if (stopped_) return false;
  PyObject* symbol = speculative_ && cls && doors::isSymbol(subject) ? subject : nullptr;
  if (subjects_->attempt.shows(symbol, "a pattern asks its class")) return false;
  if (cls && names && PyTuple_Check(names)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
      if (!attribute(subject, PyTuple_GET_ITEM(names, i))) return false;
    }
  }
  if (isPythonClass(Py_TYPE(subject))) guards().registrations = registeredClasses();  // what is a sequence, a mapping
  if (cls) {
    static PyObject* const args = PyUnicode_InternFromString("__match_args__");
    if (!belongs(subject, cls, false)) return false;
    if (PyType_Check(cls)) {
      PyObject* found = lookUp(reinterpret_cast<PyTypeObject*>(cls), args);
      for (Py_ssize_t i = 0; found && PyTuple_Check(found) && i < PyTuple_GET_SIZE(found); ++i) {
        PyObject* name = PyTuple_GET_ITEM(found, i);
        if (lookUp(Py_TYPE(subject), name) ||
            (instanceDict(subject) && PyDict_Contains(instanceDict(subject), name) == 1)) {
          if (!attribute(subject, name)) return false;
        }
      }
    }
    return true;
  }
  return isContainer(subject) ? realize(subject, false) : true;
}

}  // namespace saker::frontend
