// Attributes: where PyObject_GetAttr will find one, told without finding it for real.
#include <Python.h>
#include <structmember.h>

#include <algorithm>

#include "frontend/function_dict.h"
#include "frontend/kinds.h"
#include "frontend/numpy.h"
#include "frontend/subjects/subjects.h"
#include "frontend/symbol_doors.h"
#include "frontend/wrapped.h"

#include "host/objects.h"
#include "host/subclass_form.h"
namespace saker::frontend {

namespace {

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

bool isData(PyObject* descriptor) { return Py_TYPE(descriptor)->tp_descr_set != nullptr; }

bool isNonData(PyObject* descriptor) { return Py_TYPE(descriptor)->tp_descr_get != nullptr; }

// The getter of a property that pybind11 made of a member of a C++ object.
bool isPybindGetter(PyObject* getter, PyObject* owner) {
  if (!PyInstanceMethod_Check(getter) || !PyCFunction_Check(PyInstanceMethod_GET_FUNCTION(getter))) return false;
  return std::string_view(Py_TYPE(Py_TYPE(owner))->tp_name).ends_with("pybind11_type");
}

std::string described(PyObject* owner, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  return std::string(text ? text : "?") + " of a " + Py_TYPE(owner)->tp_name;
}

}  // namespace

bool Recorder::readsAttribute(PyObject* owner, PyObject* name) {
  check();
  if (stopped_) return false;
  Answer known =
      subjects_->first(Question::ReadsAttribute, [&](Subject& each) { return each.readsAttribute(owner, name); });
  if (known) return *known;
  return attribute(owner, name);
}

void Recorder::readAttribute(PyObject* owner, PyObject* name, PyObject* value) {
  subjects_->arrays.gave(value);
  static PyObject* const data = interned("data");
  if (name == data && isTensor(owner) && isTensor(value) && !stopped_) {
    tape_.sharesData(tensorOf(value), tensorOf(owner));
  }
  for (Subject* each : subjects_->asked(Question::ReadAttribute)) each->readAttribute(owner, name, value);
  check();
}

bool Recorder::readsSpecial(PyObject* owner, PyObject* name) {
  if (speculative_ &&
      subjects_->attempt.shows(doors::isSymbol(owner) ? owner : nullptr, "it is used in a with statement"))
    return false;
  PyObject* found = lookUp(Py_TYPE(owner), name);
  if (!found || PyFunction_Check(found)) return true;
  if (operations_.ofCall(found) != Behaviour::Unknown) return true;
  return stop({Why::WithUnknown, Py_TYPE(owner)->tp_name});
}

bool Recorder::classAttribute(PyTypeObject* type, PyObject* name) {
  PyObject* asObject = reinterpret_cast<PyObject*>(type);
  PyObject* meta = lookUp(Py_TYPE(type), name);
  if (meta && isData(meta) && !PyFunction_Check(meta) && !Py_IS_TYPE(meta, &PyProperty_Type)) {
    bool c = Py_IS_TYPE(meta, &PyGetSetDescr_Type) || Py_IS_TYPE(meta, &PyMemberDescr_Type);
    static PyObject* const dictName = interned("__dict__");
    if (c && operations_.ofDescriptor(meta) == Behaviour::Unknown)
      return stop({Why::ReadsAttribute, described(asObject, name)});
    if (name == dictName && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !subjects_->made.madeClass(asObject)) {
      fixed(type->tp_dict);
      return true;
    }
    if (c) return classPart(type, name, meta);
  }
  if (PyObject* found = lookUp(type, name)) noteFixed(found);
  return true;
}

bool Recorder::superAttribute(PyObject* object, PyObject* name) {
  static PyObject* const selfClass = interned("__self_class__");
  static PyObject* const thisClass = interned("__thisclass__");
  Ref type = Ref::steal(PyObject_GenericGetAttr(object, selfClass));
  Ref from = Ref::steal(PyObject_GenericGetAttr(object, thisClass));
  PyErr_Clear();
  if (!type || !from || !PyType_Check(type.get())) return stop(Why::UnboundSuper);
  PyObject* order = reinterpret_cast<PyTypeObject*>(type.get())->tp_mro;
  bool behind = false;
  guardOrder(reinterpret_cast<PyTypeObject*>(type.get()));
  lookUp(reinterpret_cast<PyTypeObject*>(type.get()), name);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(order); ++i) {
    PyObject* base = PyTuple_GET_ITEM(order, i);
    if (behind) {
      if (PyObject* found = lookUp(reinterpret_cast<PyTypeObject*>(base), name)) {
        noteFixed(found);
        if (Py_IS_TYPE(found, &PyGetSetDescr_Type) && operations_.ofDescriptor(found) == Behaviour::Unknown) {
          return stop({Why::ReadsAttribute, described(object, name)});
        }
        return true;
      }
    }
    behind |= base == from.get();
  }
  return true;
}

// An attribute that a data descriptor of the type answers.
bool Recorder::descriptorRead(PyObject* owner, PyObject* name, PyObject* descriptor, uint32_t place) {
  static PyObject* const get = interned("__get__");
  static PyObject* const grad = interned("grad");
  static PyObject* const dictName = interned("__dict__");
  PyTypeObject* kind = Py_TYPE(descriptor);
  if (kind->tp_descr_get == PyProperty_Type.tp_descr_get) {
    static PyObject* const getterName = interned("fget");
    Ref getter = Ref::steal(PyObject_GenericGetAttr(descriptor, getterName));
    if (!getter) PyErr_Clear();
    if (!getter || PyFunction_Check(getter.get()) || getter.get() == Py_None) return true;  // it is entered
    if (place != kInside && isPybindGetter(getter.get(), owner) &&
        operations_.ofCall(PyInstanceMethod_GET_FUNCTION(getter.get())) == Behaviour::Unknown) {
      return subjects_->flags.asks(PyInstanceMethod_GET_FUNCTION(getter.get()), {owner});
    }
    watch::Arguments self;
    self.values = &owner;
    self.positional = 1;
    return calls(getter.get(), self);
  }
  if (kind == &PyMemberDescr_Type) {
    const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
    if (member->type != T_OBJECT_EX && member->type != T_OBJECT) {
      if (place == kInside) return true;
      if (operations_.ofDescriptor(descriptor) == Behaviour::Unknown)
        return stop({Why::ReadsAttribute, described(owner, name)});
      static PyObject* const cause = interned("__cause__");  // setting it hides the context
      if (!written(owner, name) && !written(owner, cause)) checkGives(descriptor, owner, place);
      return true;
    }
    PyObject* value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(owner) + member->offset);
    if (place == kInside || written(owner, name)) return true;
    if (value) {
      read(GuardOp::Slot, place, nullptr, member->offset, value);
    } else {
      checkIs(GuardOp::NoSlot, place, nullptr, member->offset);
    }
    return true;
  }
  if (kind == &PyGetSetDescr_Type) {
    if (name == dictName) {
      if (place == kInside) return true;
      PyObject* dict = madeDict(owner);
      if (dict) read(GuardOp::DictOf, place, nullptr, 0, dict);
      return dict ? true : stop({Why::ReadsAttribute, described(owner, name)});
    }
    Answer known = subjects_->first(
        Question::ReadsDescriptor, [&](Subject& each) { return each.readsDescriptor(owner, name, descriptor, place); });
    if (known) return *known;
    static PyObject* const history = interned("grad_fn");
    if (name == history && isTensor(owner) && tensorOf(owner).is_leaf()) return true;  // it is None
    Behaviour behaviour = operations_.ofDescriptor(descriptor);
    if (behaviour == Behaviour::Unknown) return stop({Why::ReadsAttribute, described(owner, name)});
    if (behaviour == Behaviour::Tensor && name == grad && place != kInside && isTensor(owner) &&
        !written(owner, name)) {
      const at::Tensor& gradient = tensorOf(owner).grad();
      if (!gradient.defined()) {
        checkIs(GuardOp::NoGradient, place, nullptr);
      } else {
        Ref wrapped = Ref::steal(wrapTensor(gradient));
        read(GuardOp::Gradient, place, nullptr, 0, wrapped.get());
      }
      return true;
    }
    if (PyCell_Check(owner)) return readsCell(owner, PyCell_GET(owner));
    if (PyExceptionInstance_Check(owner)) {
      static PyObject* const context = interned("__context__");
      if (place == kInside && name == context && handled()) return stop(Why::AsksHandled);
      return place == kInside || exceptionPart(owner, name, place);
    }
    if (place != kInside && PyGen_Check(owner)) return stop(Why::AsksGenerator);
    // What follows from which object it is: the code of a function, its globals.
    if (place != kInside && PyFunction_Check(owner)) {
      Ref value = Ref::steal(PyObject_GenericGetAttr(owner, name));
      PyErr_Clear();
      if (value && !written(owner, name)) read(GuardOp::Computed, place, descriptor, 0, value.get());
    }
    return true;
  }
  PyObject* getter = lookUp(kind, get);
  if (!getter || PyFunction_Check(getter)) return true;
  if (PyTuple_Check(owner)) return realize(owner, false);  // a field of a named tuple
  return stop({Why::ReadsThrough, described(owner, name), kind->tp_name});
}

bool Recorder::moduleAttribute(PyObject* owner, PyObject* name) {
  static PyObject* const getAttr = interned("__getattr__");
  static PyObject* const dictName = interned("__dict__");
  static PyObject* const annotations = interned("__annotations__");
  PyObject* dict = PyModule_GetDict(owner);
  lookUp(Py_TYPE(owner), name);
  if (written(dict, name)) return true;
  uint32_t where = fixed(dict);
  if (name == dictName) return true;
  if (name == annotations && !PyDict_GetItemWithError(dict, name))
    return stop({Why::ReadsAttribute, described(owner, name)});
  if (PyObject* value = PyDict_GetItemWithError(dict, name)) {
    read(GuardOp::Key, where, name, 0, value);
    return true;
  }
  checkIs(GuardOp::NoKey, where, name);
  if (written(dict, getAttr)) return true;
  if (PyObject* own = PyDict_GetItemWithError(dict, getAttr)) {
    read(GuardOp::Key, where, getAttr, 0, own);
  } else {
    checkIs(GuardOp::NoKey, where, getAttr);
  }
  return true;
}

bool Recorder::attribute(PyObject* owner, PyObject* name, bool plain) {
  static PyObject* const getAttribute = interned("__getattribute__");
  static PyObject* const getAttr = interned("__getattr__");
  static PyObject* const remove = interned("remove");
  static PyObject* const classOf = interned("__class__");
  // Which hook it removes is another thing in each call.
  if (subjects_->hooks.handleOf(owner) && name != remove && name != classOf) {
    return stop({Why::ReadsHandle, described(owner, name)});
  }
  PyTypeObject* type = Py_TYPE(owner);
  if (speculative_ && subjects_->attempt.shows(doors::isSymbol(owner) ? owner : nullptr, "an attribute of it is read"))
    return false;
  if (PyType_Check(owner)) {
    auto* asType = reinterpret_cast<PyTypeObject*>(owner);
    PyObject* own = lookUp(type, getAttribute);
    if (own && PyFunction_Check(own)) return true;
    return classAttribute(asType, name);
  }
  if (type == &PySuper_Type) return superAttribute(owner, name);
  if (isThreadLocal(owner)) return localAttribute(owner, name);
  uint32_t place = placeOf(owner);
  if (PyModule_Check(owner)) return moduleAttribute(owner, name);
  if (type == &PyMethod_Type) {  // asks its function
    static PyObject* const doc = interned("__doc__");
    PyObject* known = lookUp(type, name);
    return known && name != doc ? true : attribute(PyMethod_GET_FUNCTION(owner), name);
  }
  if (isNamed(owner) && place == kInside && !madeHere(owner)) place = fixed(owner);
  if (plain) {
    // Goes on as below.
  } else if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    PyObject* own = lookUp(type, getAttribute);
    if (own && PyFunction_Check(own)) return true;  // Python code decides
  } else if (type->tp_getattro != PyObject_GenericGetAttr && type->tp_getattro != nullptr) {
    if (place == kInside && isAtom(owner)) return true;
    if (place == kInside && operations_.isValueType(type)) return true;
    return stop({Why::ReadsAttribute, described(owner, name)});
  }
  PyObject* descriptor = lookUp(type, name);
  if (descriptor && isData(descriptor)) return descriptorRead(owner, name, descriptor, place);
  bool hasDict = type->tp_dictoffset != 0 || (type->tp_flags & Py_TPFLAGS_MANAGED_DICT);
  if (hasDict) {
    PyObject* dict = instanceDict(owner);
    PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
    PyObject* before = dict ? effects_.before(dict) : nullptr;
    bool changed = before && PyDict_GetItemWithError(before, name) != value;
    if (place != kInside && !changed && !written(owner, name) && !(dict && written(dict, name))) {
      if (value) {
        read(GuardOp::Attribute, place, name, 0, value);
      } else {
        if (provenance_.lacks(place, name)) checkIs(GuardOp::NoAttribute, place, name);
      }
    }
    if (value) return true;
  }
  if (!descriptor) {
    lookUp(type, getAttr);
    return true;
  }
  if (isNonData(descriptor)) {
    PyTypeObject* kind = Py_TYPE(descriptor);
    if (isNamed(descriptor)) return true;                                     // a function, a method, a classmethod
    if (std::string_view(kind->tp_name) == "functools._lru_cache_wrapper") {  // binds like a function
      fixed(descriptor);
      return true;
    }
    static PyObject* const get = interned("__get__");
    PyObject* getter = lookUp(kind, get);
    if (getter && PyFunction_Check(getter)) {
      fixed(descriptor);
      return true;
    }
    if (PyTuple_Check(owner)) return realize(owner, false);                      // a field of a named tuple
    if (numpy::draws(descriptor) && numpy::isFunction(descriptor)) return true;  // binds like a function
    return stop({Why::ReadsThrough, described(owner, name), kind->tp_name});
  }
  noteFixed(descriptor);
  return true;
}

bool Recorder::writesAttribute(PyObject* owner, PyObject* name, PyObject* value) {
  static PyObject* const setter = interned("__setattr__");
  static PyObject* const deleter = interned("__delattr__");
  check();
  if (stopped_) return false;
  if (speculative_ && subjects_->attempt.shows(doors::isSymbol(owner) ? owner : nullptr, "an attribute of it is set"))
    return false;
  PyTypeObject* type = Py_TYPE(owner);
  if (isWrapperClass(type)) return stop({Why::ChangesWrapper, described(owner, name)});
  PyObject* own = lookUp(type, value ? setter : deleter);
  if (own && PyFunction_Check(own)) return true;
  return plainWrite(owner, name, value);
}

bool Recorder::classWrite(PyObject* type, PyObject* name, PyObject* value) {
  static PyObject* const set = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyType_Type), "__setattr__");
  if (subjects_->made.madeClass(type)) {
    subjects_->made.changedClass(type);
    return true;
  }
  if (!isPythonClass(reinterpret_cast<PyTypeObject*>(type))) return true;  // the program will be told
  PyObject* meta = lookUp(Py_TYPE(type), name);
  if (!value || (meta && isData(meta))) return stop(Why::ChangesClass);
  fixed(type);
  effects_.write(type, name);
  if (auto* dict = reinterpret_cast<PyTypeObject*>(type)->tp_dict; placeOf(dict) != kInside) {
    return stop(Why::ChangesReadClass);
  }
  writesClasses_ = true;
  return effect(set, {type, name, value});
}

bool Recorder::plainWrite(PyObject* owner, PyObject* name, PyObject* value) {
  if (subjects_->hooks.handleOf(owner)) return stop(Why::ChangesHandle);
  static PyObject* const plainSet =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__setattr__");
  static PyObject* const plainDelete =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__delattr__");
  static PyObject* const setItem = PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), "__setitem__");
  PyTypeObject* type = Py_TYPE(owner);
  if (PyType_Check(owner)) return classWrite(owner, name, value);
  if (isThreadLocal(owner)) return localWrite(owner, name, value);
  if (PyModule_Check(owner)) {
    if (!value) return stop(Why::DeletesModuleAttribute);
    PyObject* dict = PyModule_GetDict(owner);
    fixed(dict);
    effects_.write(dict, name);
    return effect(setItem, {dict, name, value});
  }
  static PyObject* const grad = interned("grad");
  static PyObject* const requiresGrad = interned("requires_grad");
  if (isTensor(owner) && name == requiresGrad && value) return subjects_->made.setsRequiresGrad(owner, value);
  if (isTensor(owner) && name == grad && answersFunctions(owner)) return stop(Why::AsksClassOfGradients);
  if (isTensor(owner) && name == grad && value && placeOf(owner) != kInside) {
    effects_.write(owner, name);
    return effect(plainSet, {owner, name, value});
  }
  PyObject* descriptor = lookUp(type, name);
  if (descriptor && isData(descriptor)) {
    PyTypeObject* kind = Py_TYPE(descriptor);
    if (kind->tp_descr_set == PyProperty_Type.tp_descr_set) {
      static PyObject* const setterName = interned("fset");
      Ref setter = Ref::steal(PyObject_GenericGetAttr(descriptor, setterName));
      if (!setter) PyErr_Clear();
      if (!setter || PyFunction_Check(setter.get()) || setter.get() == Py_None) return true;
      return stop({Why::SetsAttribute, described(owner, name)});
    }
    static PyObject* const set = interned("__set__");
    PyObject* code = lookUp(kind, set);
    if (code && PyFunction_Check(code)) return true;
    bool slot = kind == &PyMemberDescr_Type && (type->tp_flags & Py_TPFLAGS_HEAPTYPE);
    bool own = madeHere(owner) || PyExceptionInstance_Check(owner);
    if (!slot && !own) return stop({Why::SetsAttribute, described(owner, name)});
  }
  if (isNamed(owner) && !madeHere(owner) && placeOf(owner) == kInside) fixed(owner);
  if (placeOf(owner) == kInside) return true;
  bool hasDict = type->tp_dictoffset != 0 || (type->tp_flags & Py_TPFLAGS_MANAGED_DICT);
  bool inSlot = descriptor && isData(descriptor);
  if (!inSlot && !hasDict) return true;  // the program will be told
  if (!value) {                          // only what is there can be deleted
    if (!attribute(owner, name)) return false;
    PyObject* dict = instanceDict(owner);
    if (!inSlot && !(dict && PyDict_GetItemWithError(dict, name))) return true;
  }
  if (!inSlot) {
    Ref dict = Ref::steal(PyObject_GenericGetDict(owner, nullptr));
    if (!dict || !beforeWrite(dict.get())) {
      PyErr_Clear();
      return stop({Why::SetsAttribute, described(owner, name)});
    }
    effects_.write(dict.get(), name);
  }
  effects_.write(owner, name);
  return value ? effect(plainSet, {owner, name, value}) : effect(plainDelete, {owner, name});
}

}  // namespace saker::frontend
