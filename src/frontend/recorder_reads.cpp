// What C code reads of objects besides what containers hold: special methods, the bases of classes, names, parts of
// exceptions, and answers that may be others at the next call.
#include <Python.h>
#include <structmember.h>

#include <algorithm>

#include "frontend/around.h"
#include "frontend/kinds.h"
#include "frontend/subjects/subjects.h"

#include "host/objects.h"
namespace saker::frontend {

namespace {

using Values = std::vector<PyObject*>;

constexpr int kDeepestRead = 12;

// Every name that an operator, a statement or a builtin function looks up on a type.
const char* const kSpecials[] = {"__abs__",      "__add__",      "__aenter__",
                                 "__aexit__",    "__aiter__",    "__and__",
                                 "__anext__",    "__array__",    "__await__",
                                 "__bool__",     "__bytes__",    "__call__",
                                 "__ceil__",     "__class__",    "__complex__",
                                 "__contains__", "__delattr__",  "__delitem__",
                                 "__dir__",      "__divmod__",   "__enter__",
                                 "__eq__",       "__exit__",     "__float__",
                                 "__floor__",    "__floordiv__", "__format__",
                                 "__ge__",       "__getattr__",  "__getattribute__",
                                 "__getitem__",  "__gt__",       "__hash__",
                                 "__iadd__",     "__iand__",     "__ifloordiv__",
                                 "__ilshift__",  "__imatmul__",  "__imod__",
                                 "__imul__",     "__index__",    "__init_subclass__",
                                 "__int__",      "__invert__",   "__ior__",
                                 "__ipow__",     "__irshift__",  "__isub__",
                                 "__iter__",     "__itruediv__", "__ixor__",
                                 "__le__",       "__len__",      "__length_hint__",
                                 "__lshift__",   "__lt__",       "__matmul__",
                                 "__missing__",  "__mod__",      "__mul__",
                                 "__ne__",       "__neg__",      "__next__",
                                 "__or__",       "__pos__",      "__pow__",
                                 "__radd__",     "__rand__",     "__rdivmod__",
                                 "__repr__",     "__reversed__", "__rfloordiv__",
                                 "__rlshift__",  "__rmatmul__",  "__rmod__",
                                 "__rmul__",     "__ror__",      "__round__",
                                 "__rpow__",     "__rrshift__",  "__rshift__",
                                 "__rsub__",     "__rtruediv__", "__rxor__",
                                 "__setattr__",  "__setitem__",  "__str__",
                                 "__sub__",      "__truediv__",  "__trunc__",
                                 "__xor__",      "__fspath__",   "__torch_function__",
                                 "__new__",      "__init__"};

const std::vector<PyObject*>& specialNames() {
  static const std::vector<PyObject*>& names = *[] {
    auto* made = new std::vector<PyObject*>;
    for (const char* name : kSpecials) made->push_back(PyUnicode_InternFromString(name));
    return made;
  }();
  return names;
}

PyObject* internedText(const char* text) { return PyUnicode_InternFromString(text); }

}  // namespace

void Recorder::guardSpecials(PyTypeObject* type) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !specials_.insert(type).second) return;
  if (subjects_->made.madeClass(reinterpret_cast<PyObject*>(type))) return;
  for (PyObject* name : specialNames()) lookUp(type, name);
}

void Recorder::guardOrder(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (!isPythonClass(type) || subjects_->made.madeClass(object) || !orders_.insert(type).second) return;
  uint32_t order = read(GuardOp::Slot, fixed(object), nullptr, offsetof(PyTypeObject, tp_mro), type->tp_mro);
  checkIs(GuardOp::Is, order, type->tp_mro);
}

bool Recorder::belongs(PyObject* object, PyObject* kinds, bool isClass, int depth) {
  static PyObject* const instanceCheck = internedText("__instancecheck__");
  static PyObject* const subclassCheck = internedText("__subclasscheck__");
  if (depth == 0) {
    if (isClass && PyType_Check(object)) guardOrder(reinterpret_cast<PyTypeObject*>(object));
    if (!isClass) {
      guardOrder(Py_TYPE(object));
      guardSpecials(Py_TYPE(object));
    }
    if (!realize(kinds, true)) return false;
  }
  if (PyTuple_Check(kinds)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kinds) && depth < kDeepestRead; ++i) {
      if (!belongs(object, PyTuple_GET_ITEM(kinds, i), isClass, depth + 1)) return false;
    }
  } else {
    lookUp(Py_TYPE(kinds), isClass ? subclassCheck : instanceCheck);
  }
  return true;
}

bool Recorder::tells(PyObject* object, int depth) {
  static PyObject* const qualname = internedText("__qualname__");
  static PyObject* const module = internedText("__module__");
  static PyObject* const plainName = internedText("__name__");
  static PyObject* const represent = internedText("__repr__");
  if (depth > kDeepestRead || isAtom(object) || isTensor(object)) return true;
  if (PyType_Check(object)) {
    guardSpecials(Py_TYPE(object));
    return attribute(object, module) && attribute(object, qualname) && attribute(object, plainName);
  }
  if (named(object) && PyFunction_Check(object)) return attribute(object, qualname);
  if (Py_IS_TYPE(object, &PyMethod_Type)) {
    return tells(PyMethod_GET_FUNCTION(object), depth + 1) && tells(PyMethod_GET_SELF(object), depth + 1);
  }
  if (PyModule_Check(object)) {
    for (const char* name : {"__name__", "__spec__", "__loader__", "__file__"}) {
      Ref key = Ref::steal(internedText(name));
      keep(key);
      if (!attribute(object, key.get())) return false;
    }
    return true;
  }
  guardSpecials(Py_TYPE(object));
  if (PyExceptionInstance_Check(object)) {
    static PyObject* const args = internedText("args");
    uint32_t place = placeOf(object);
    bool plain = nativeBase(Py_TYPE(object))->tp_basicsize == static_cast<Py_ssize_t>(sizeof(PyBaseExceptionObject));
    if (place != kInside && !plain) return stop({Why::MakesText, Py_TYPE(object)->tp_name});
    if (place != kInside && !exceptionPart(object, args, place)) return false;
    PyObject* given = reinterpret_cast<PyBaseExceptionObject*>(object)->args;
    return tells(reinterpret_cast<PyObject*>(Py_TYPE(object)), depth + 1) && (!given || tells(given, depth + 1));
  }
  if (isContainer(object)) {
    if (!realize(object, false)) return false;
    if (PyDict_Check(object)) {
      Py_ssize_t position = 0;
      PyObject *key = nullptr, *value = nullptr;
      while (PyDict_Next(object, &position, &key, &value)) {
        if (!tells(key, depth + 1) || !tells(value, depth + 1)) return false;
      }
      return true;
    }
    Ref items = itemsOf(object);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
      if (!tells(PyTuple_GET_ITEM(items.get(), i), depth + 1)) return false;
    }
    return true;
  }
  // Without a __repr__ of its own it shows its address, and the name of its class.
  PyObject* own = isPythonClass(Py_TYPE(object)) ? lookUp(Py_TYPE(object), represent) : nullptr;
  if (!own || PyFunction_Check(own)) return true;
  pin(object);
  return tells(reinterpret_cast<PyObject*>(Py_TYPE(object)), depth + 1);
}

bool Recorder::exceptionPart(PyObject* exception, PyObject* name, uint32_t place) {
  struct Part {
    PyObject* name;
    size_t offset;
  };
  static const Part parts[] = {{internedText("args"), offsetof(PyBaseExceptionObject, args)},
                               {internedText("__cause__"), offsetof(PyBaseExceptionObject, cause)},
                               {internedText("__context__"), offsetof(PyBaseExceptionObject, context)},
                               {internedText("__traceback__"), offsetof(PyBaseExceptionObject, traceback)}};
  const Part* part =
      std::find_if(std::begin(parts), std::end(parts), [&](const Part& each) { return each.name == name; });
  if (part == std::end(parts)) return stop(Why::ReadsExceptionPart);
  if (written(exception, name)) return true;
  PyObject* value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(exception) + part->offset);
  if (value) {
    read(GuardOp::Slot, place, nullptr, static_cast<int64_t>(part->offset), value);
  } else {
    checkIs(GuardOp::NoSlot, place, nullptr, static_cast<int64_t>(part->offset));
  }
  return true;
}

void Recorder::checkGives(PyObject* descriptor, PyObject* owner, uint32_t place) {
  Ref value = descriptorValue(descriptor, owner);
  Ref pair = Ref::steal(value ? PyTuple_Pack(2, descriptor, value.get()) : PyTuple_Pack(1, descriptor));
  checkIs(GuardOp::Gives, place, pair.get());
}

bool Recorder::classPart(PyTypeObject* type, PyObject* name, PyObject* descriptor) {
  static PyObject* const order = internedText("__mro__");
  static PyObject* const doc = internedText("__doc__");
  auto* object = reinterpret_cast<PyObject*>(type);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || subjects_->made.madeClass(object)) return true;
  if (name == order) {
    guardOrder(type);
    return true;
  }
  if (name == doc) {
    PyObject* held = PyDict_GetItemWithError(type->tp_dict, doc);
    if (held && Py_TYPE(held)->tp_descr_get) return stop(Why::ReadsComputedDoc);
  }
  uint32_t place = fixed(object);
  Ref value = descriptorValue(descriptor, object);
  // The class holds what a getset gives, but for texts that are made anew.
  bool held = value && Py_IS_TYPE(descriptor, &PyGetSetDescr_Type) && Py_REFCNT(value.get()) > 1;
  if (value && Py_IS_TYPE(descriptor, &PyMemberDescr_Type)) {
    const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
    if (member->type == T_OBJECT || member->type == T_OBJECT_EX) {
      read(GuardOp::Slot, place, nullptr, member->offset, value.get());
      return true;
    }
  }
  if (held) {
    read(GuardOp::Computed, place, descriptor, 0, value.get());
    return true;
  }
  if (value && !isAtom(value.get())) {
    return stop({Why::ReadsMadeAnew, textAttribute(name, "__str__")});
  }
  checkGives(descriptor, object, place);
  return true;
}

}  // namespace saker::frontend
