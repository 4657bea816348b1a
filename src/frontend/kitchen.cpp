// Makes the objects that recipes tell of.
#include "frontend/recipe.h"

#include <ATen/ops/full.h>
#include <Python.h>
#include <frameobject.h>
#include <structmember.h>

#include "frontend/hook_handles.h"
#include "frontend/kinds.h"
#include "frontend/numpy.h"
#include "frontend/subjects/subjects.h"
#include "frontend/wrapped.h"
#include "host/objects.h"
#include "watch/once.h"

namespace saker::frontend {

namespace {

// A result becomes one of the class; what the class does to make one was recorded. Where objects of the class lie
// otherwise in memory, it is a view.
PyObject* asClass(Ref tensor, PyObject* type) {
  if (Py_TYPE(tensor.get()) == tensorClass() && PyObject_SetAttrString(tensor.get(), "__class__", type) == 0) {
    return tensor.release();
  }
  PyErr_Clear();
  return PyObject_CallMethod(tensor.get(), "as_subclass", "O", type);
}

// Frames that ran nothing, at the lines of those that did.
PyObject* makeTraceback(PyObject* entries) {
  Ref next = Ref::borrow(Py_None);
  for (Py_ssize_t i = PyList_GET_SIZE(entries); i-- > 0;) {
    PyObject* entry = PyList_GET_ITEM(entries, i);
    auto* code = reinterpret_cast<PyCodeObject*>(PyTuple_GET_ITEM(entry, 0));
    Ref frame = Ref::steal(
        reinterpret_cast<PyObject*>(PyFrame_New(PyThreadState_Get(), code, PyTuple_GET_ITEM(entry, 1), nullptr)));
    if (!frame) return nullptr;
    next =
        Ref::steal(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PyTraceBack_Type), next.get(), frame.get(),
                                                PyTuple_GET_ITEM(entry, 2), PyTuple_GET_ITEM(entry, 3), nullptr));
    if (!next) return nullptr;
  }
  return next.release();
}

void fillException(PyBaseExceptionObject* made, const std::vector<PyObject*>& parts) {
  auto held = [](PyObject* object) { return object == Py_None ? nullptr : Py_NewRef(object); };
  Py_SETREF(made->args, Py_NewRef(parts[0]));
  Py_XSETREF(made->cause, held(parts[1]));
  Py_XSETREF(made->context, held(parts[2]));
  Py_XSETREF(made->traceback, held(parts[3]));
  made->suppress_context = parts[4] == Py_True;
}

}  // namespace

PyObject* Kitchen::make(uint32_t number) {
  if (made_[number]) return made_[number].get();
  const Recipe& recipe = recipes_[number];
  PyObject* made = nullptr;
  auto keep = [&] {
    made_[number] = Ref::steal(made);
    return made;
  };
  using Kind = Recipe::Kind;
  auto* type = reinterpret_cast<PyTypeObject*>(recipe.object.get());
  static PyObject* const nothing = PyTuple_New(0);
  switch (recipe.kind) {
    case Kind::Constant:
      made = Py_NewRef(recipe.object.get());
      return keep();
    case Kind::Place:
      made = Py_NewRef(places_[recipe.index]);
      return keep();
    case Kind::Generator:
      made = Py_NewRef(places_[recipe.index]);
      break;
    case Kind::Handle:
      made = Py_XNewRef(HookHandles::at(recipe.index));
      return keep();
    case Kind::Output:
      made = wrapTensor(outputs_[recipe.index]);
      if (made && recipe.object) {
        made = asClass(Ref::steal(made), recipe.object.get());
      }
      return keep();
    case Kind::Int:
      made = PyLong_FromLongLong(outputs_[recipe.index].item<int64_t>());
      return keep();
    case Kind::Float:
      made = PyFloat_FromDouble(outputs_[recipe.index].item<double>());
      return keep();
    case Kind::Array:
    case Kind::Scalar: {
      Ref array = numpy::fromTensor(outputs_[recipe.index], recipe.kind == Kind::Scalar);
      if (array && recipe.object) {
        Ref locked = Ref::steal(PyObject_CallMethod(array.get(), "setflags", "O", Py_False));
        if (!locked) return nullptr;
      }
      made = array.release();
      return keep();
    }
    case Kind::Tuple: {
      Ref items = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(recipe.parts.size())));
      for (size_t i = 0; i < recipe.parts.size(); ++i) {
        PyObject* item = make(recipe.parts[i]);
        if (!item) return nullptr;
        PyTuple_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i), Py_NewRef(item));
      }
      if (recipe.index) {
        type = reinterpret_cast<PyTypeObject*>(make(recipe.index - 1));
        if (!type) return nullptr;
      }
      if (type == &PyTuple_Type) {
        made = items.release();
      } else if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        Ref args = Ref::steal(PyTuple_Pack(1, items.get()));
        made = PyTuple_Type.tp_new(type, args.get(), nullptr);
      } else {  // torch.Size and its like
        made = PyObject_CallOneArg(recipe.object.get(), items.get());
      }
      return keep();
    }
    case Kind::FrozenSet: {
      Ref items = Ref::steal(PyList_New(0));
      for (uint32_t part : recipe.parts) {
        PyObject* item = make(part);
        if (!item || PyList_Append(items.get(), item) < 0) return nullptr;
      }
      made = PyFrozenSet_New(items.get());
      return keep();
    }
    case Kind::Method: {
      PyObject* function = make(recipe.parts[0]);
      PyObject* self = function ? make(recipe.parts[1]) : nullptr;
      if (!self) return nullptr;
      made = PyMethod_New(function, self);
      return keep();
    }
    case Kind::Slice: {
      PyObject* parts[3];
      for (int i = 0; i < 3; ++i) {
        parts[i] = make(recipe.parts[static_cast<size_t>(i)]);
        if (!parts[i]) return nullptr;
      }
      made = PySlice_New(parts[0], parts[1], parts[2]);
      return keep();
    }
    case Kind::Reduced: {
      PyObject* parts[3];
      for (size_t i = 0; i < 3; ++i) {
        parts[i] = make(recipe.parts[i]);
        if (!parts[i]) return nullptr;
      }
      made = PyObject_CallObject(parts[0], parts[1]);
      if (made && parts[2] != Py_None) {
        Ref done = Ref::steal(PyObject_CallMethod(made, "__setstate__", "O", parts[2]));
        if (!done) Py_CLEAR(made);
      }
      return keep();
    }
    case Kind::Traceback:
      made = makeTraceback(recipe.object.get());
      return keep();
    case Kind::Exception:
      made = nativeBase(type)->tp_new(type, nothing, nullptr);
      break;
    case Kind::Called: {
      PyObject* parts[3];
      for (size_t i = 0; i < 3; ++i) {
        parts[i] = make(recipe.parts[i]);
        if (!parts[i]) return nullptr;
      }
      made = PyObject_Call(parts[0], parts[1], parts[2]);
      return keep();
    }
    case Kind::List:
      made = type == &PyList_Type ? PyList_New(0) : PyList_Type.tp_new(type, nothing, nullptr);
      break;
    case Kind::Set:
      made = type == &PySet_Type ? PySet_New(nullptr) : PySet_Type.tp_new(type, nothing, nullptr);
      break;
    case Kind::Deque:
    case Kind::Dict:
      made = type == &PyDict_Type ? PyDict_New() : nativeBase(type)->tp_new(type, nothing, nullptr);
      if (made && recipe.kind == Kind::Dict && nativeBase(type) != &PyDict_Type && nativeBase(type)->tp_init) {
        PyObject* factory = recipe.index ? make(recipe.index - 1) : nullptr;
        Ref args = factory ? Ref::steal(PyTuple_Pack(1, factory)) : Ref::borrow(nothing);
        if (nativeBase(type)->tp_init(made, args.get(), nullptr) < 0) Py_CLEAR(made);
      }
      if (made && recipe.kind == Kind::Deque) {
        PyObject* limit = make(recipe.index - 1);
        Ref args = Ref::steal(limit ? PyTuple_Pack(2, nothing, limit) : nullptr);
        if (!args || nativeBase(type)->tp_init(made, args.get(), nullptr) < 0) Py_CLEAR(made);
      }
      break;
    case Kind::Instance:
      made = PyBaseObject_Type.tp_new(type, nothing, nullptr);
      break;
    case Kind::Cell:
      made = PyCell_New(nullptr);
      break;
    case Kind::Function: {
      PyObject* globals = make(recipe.parts[0]);
      PyObject* qualname = globals ? make(recipe.parts[1]) : nullptr;
      if (!qualname) return nullptr;
      made = PyFunction_NewWithQualName(recipe.object.get(), globals, qualname);
      break;
    }
  }
  if (!made) return nullptr;
  keep();
  return fill(recipe, made) ? made : nullptr;
}

bool Kitchen::fill(const Recipe& recipe, PyObject* object) {
  using Kind = Recipe::Kind;
  std::vector<PyObject*> parts;
  for (uint32_t part : recipe.parts) {
    parts.push_back(make(part));
    if (!parts.back()) return false;
  }
  static PyObject* const append = PyUnicode_InternFromString("append");
  for (size_t i = 0; i + 1 < recipe.attributes.size(); i += 2) {
    PyObject* name = make(recipe.attributes[i]);
    PyObject* value = name ? make(recipe.attributes[i + 1]) : nullptr;
    if (!value || PyObject_GenericSetAttr(object, name, value) < 0) return false;
  }
  switch (recipe.kind) {
    case Kind::List:
      for (PyObject* item : parts) {
        if (PyList_Append(object, item) < 0) return false;
      }
      return true;
    case Kind::Set:
      for (PyObject* item : parts) {
        if (PySet_Add(object, item) < 0) return false;
      }
      return true;
    case Kind::Deque:
      for (PyObject* item : parts) {
        Ref done = Ref::steal(PyObject_CallMethodOneArg(object, append, item));
        if (!done) return false;
      }
      return true;
    case Kind::Dict: {
      objobjargproc set = nativeBase(Py_TYPE(object))->tp_as_mapping->mp_ass_subscript;
      for (size_t i = 0; i + 1 < parts.size(); i += 2) {
        if (set(object, parts[i], parts[i + 1]) < 0) return false;
      }
      return true;
    }
    case Kind::Instance:
      for (size_t i = 0; i + 1 < parts.size(); i += 2) {
        if (PyObject_GenericSetAttr(object, parts[i], parts[i + 1]) < 0) return false;
      }
      return true;
    case Kind::Exception:
      fillException(reinterpret_cast<PyBaseExceptionObject*>(object), parts);
      return true;
    case Kind::Cell:
      return parts.empty() || PyCell_Set(object, parts[0]) == 0;
    case Kind::Function:
      if (parts[2] != Py_None && PyFunction_SetDefaults(object, parts[2]) < 0) return false;
      if (parts[3] != Py_None && PyFunction_SetKwDefaults(object, parts[3]) < 0) return false;
      if (parts[4] != Py_None && PyFunction_SetClosure(object, parts[4]) < 0) return false;
      return PyObject_SetAttrString(object, "__name__", parts[5]) == 0 &&
             PyObject_SetAttrString(object, "__module__", parts[6]) == 0 &&
             PyObject_SetAttrString(object, "__doc__", parts[7]) == 0;
    default:
      return true;
  }
}

}  // namespace saker::frontend
