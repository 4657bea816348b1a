// What C code reads of objects besides what containers hold: special methods, the bases of classes, names, parts of
// exceptions, and answers that may be others at the next call.
#include <ATen/PythonTorchFunctionTLS.h>
#include <Python.h>
#include <structmember.h>

#include <algorithm>

#include "frontend/around.h"
#include "frontend/kinds.h"
#include "frontend/recorder.h"

#include "host/objects.h"
namespace saker::frontend {

namespace {

using Values = std::vector<PyObject*>;

constexpr int kDeepest = 12;

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

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

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
  const WithoutTorchFunction unasked;
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

void Recorder::guardSpecials(PyTypeObject* type) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !specials_.insert(type).second) return;
  if (madeClass(reinterpret_cast<PyObject*>(type))) return;
  for (PyObject* name : specialNames()) lookUp(type, name);
}

void Recorder::guardOrder(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if (!isPythonClass(type) || madeClass(object) || !orders_.insert(type).second) return;
  uint32_t order = read(Op::Slot, fixed(object), nullptr, offsetof(PyTypeObject, tp_mro), type->tp_mro);
  checkIs(Op::Is, order, type->tp_mro);
}

bool Recorder::belongs(PyObject* object, PyObject* kinds, bool isClass, int depth) {
  static PyObject* const instanceCheck = interned("__instancecheck__");
  static PyObject* const subclassCheck = interned("__subclasscheck__");
  if (depth == 0) {
    if (isClass && PyType_Check(object)) guardOrder(reinterpret_cast<PyTypeObject*>(object));
    if (!isClass) {
      guardOrder(Py_TYPE(object));
      guardSpecials(Py_TYPE(object));
    }
    if (!realize(kinds, true)) return false;
  }
  if (PyTuple_Check(kinds)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kinds) && depth < kDeepest; ++i) {
      if (!belongs(object, PyTuple_GET_ITEM(kinds, i), isClass, depth + 1)) return false;
    }
  } else {
    lookUp(Py_TYPE(kinds), isClass ? subclassCheck : instanceCheck);
  }
  return true;
}

bool Recorder::tells(PyObject* object, int depth) {
  static PyObject* const qualname = interned("__qualname__");
  static PyObject* const module = interned("__module__");
  static PyObject* const plainName = interned("__name__");
  static PyObject* const represent = interned("__repr__");
  if (depth > kDeepest || isAtom(object) || isTensor(object)) return true;
  if (PyType_Check(object)) {
    guardSpecials(Py_TYPE(object));
    return attribute(object, module) && attribute(object, qualname) && attribute(object, plainName);
  }
  if (PyFunction_Check(object)) return attribute(object, qualname);
  if (Py_IS_TYPE(object, &PyMethod_Type)) {
    return tells(PyMethod_GET_FUNCTION(object), depth + 1) && tells(PyMethod_GET_SELF(object), depth + 1);
  }
  if (PyModule_Check(object)) {
    for (const char* name : {"__name__", "__spec__", "__loader__", "__file__"}) {
      Ref key = Ref::steal(interned(name));
      kept_.push_back(key);
      if (!attribute(object, key.get())) return false;
    }
    return true;
  }
  guardSpecials(Py_TYPE(object));
  if (PyExceptionInstance_Check(object)) {
    static PyObject* const args = interned("args");
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
    Ref items = Ref::steal(PySequence_Tuple(object));
    PyErr_Clear();
    for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items.get()); ++i) {
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
  static const Part parts[] = {{interned("args"), offsetof(PyBaseExceptionObject, args)},
                               {interned("__cause__"), offsetof(PyBaseExceptionObject, cause)},
                               {interned("__context__"), offsetof(PyBaseExceptionObject, context)},
                               {interned("__traceback__"), offsetof(PyBaseExceptionObject, traceback)}};
  const Part* part =
      std::find_if(std::begin(parts), std::end(parts), [&](const Part& each) { return each.name == name; });
  if (part == std::end(parts)) return stop(Why::ReadsExceptionPart);
  if (written(exception, name)) return true;
  PyObject* value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(exception) + part->offset);
  if (value) {
    read(Op::Slot, place, nullptr, static_cast<int64_t>(part->offset), value);
  } else {
    checkIs(Op::NoSlot, place, nullptr, static_cast<int64_t>(part->offset));
  }
  return true;
}

void Recorder::checkGives(PyObject* descriptor, PyObject* owner, uint32_t place) {
  Ref value = descriptorValue(descriptor, owner);
  Ref pair = Ref::steal(value ? PyTuple_Pack(2, descriptor, value.get()) : PyTuple_Pack(1, descriptor));
  checkIs(Op::Gives, place, pair.get());
}

bool Recorder::classPart(PyTypeObject* type, PyObject* name, PyObject* descriptor) {
  static PyObject* const order = interned("__mro__");
  static PyObject* const doc = interned("__doc__");
  auto* object = reinterpret_cast<PyObject*>(type);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || madeClass(object)) return true;
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
      read(Op::Slot, place, nullptr, member->offset, value.get());
      return true;
    }
  }
  if (held) {
    read(Op::Computed, place, descriptor, 0, value.get());
    return true;
  }
  if (value && !isAtom(value.get())) {
    return stop({Why::ReadsMadeAnew, textAttribute(name, "__str__")});
  }
  checkGives(descriptor, object, place);
  return true;
}

// sys.exc_info(): the caller may be in a handler.
bool Recorder::asksForException(PyObject* callable) {
  PyObject* now = handledNow();
  if (now != handled_.get()) return true;  // one of the call's own
  if (now) return stop({Why::AsksForHandled, Operations::name(callable)});
  return true;  // whether there is one is guarded
}

bool Recorder::asks(PyObject* callable, const Values& given) {
  std::string name = nameOf(callable);
  if (name == "exc_info" || name == "exception") return asksForException(callable);
  if (setFlags_.contains(around::flagOf(callable))) return true;  // the call has set it itself
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
    bool constant = isAtom(args[i]) || isNamed(args[i]);
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
  Asked asked{function, tuple, {}, places};
  asked.answer = askAgain(asked, objects_);
  if (!asked.answer) return true;  // the program will be told
  if (!isAnswer(asked.answer.get())) return stop({Why::AsksForObject, Operations::name(callable)});
  asked_.push_back(std::move(asked));
  return true;
}

}  // namespace saker::frontend
