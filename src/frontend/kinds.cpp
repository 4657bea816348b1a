#include "frontend/kinds.h"

#include "frontend/numpy.h"
#include "host/objects.h"
#include "watch/once.h"

#include <string_view>

namespace saker::frontend {

bool isPythonClass(PyTypeObject* type) {
  static constinit watch::Once<destructor> known;
  destructor ofClasses = known.get([] {
    Ref found = Ref::steal(watch::importedAttribute("collections.abc", "Sized"));
    return found ? reinterpret_cast<PyTypeObject*>(found.get())->tp_dealloc : nullptr;
  });
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_dealloc == ofClasses;
}

PyTypeObject* nativeBase(PyTypeObject* type) {
  while (type->tp_base && isPythonClass(type)) type = type->tp_base;
  // From 3.12 on a type of C, which adds nothing to its instances.
  return std::string_view(type->tp_name) == "typing.Generic" ? type->tp_base : type;
}

PyObject* argumentOf(const std::vector<PyObject*>& args, PyObject* names, size_t index, const char* name) {
  size_t named = names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
  if (index < args.size() - named) return args[index];
  for (size_t i = 0; i < named; ++i) {
    PyObject* each = PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i));
    if (PyUnicode_CompareWithASCIIString(each, name) == 0) return args[args.size() - named + i];
  }
  return nullptr;
}

bool isThreadLocal(PyObject* object) {
  static constinit watch::Once<PyObject*> found;
  PyObject* type = found.get([] { return watch::importedAttribute("_thread", "_local"); });
  return Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(type));
}

PyObject* dictOfThread(PyObject* local) {
  Ref dict = Ref::steal(PyObject_GetAttrString(local, "__dict__"));
  if (!dict) PyErr_Clear();
  return dict.get();
}

bool isPartOf(PyObject* function, const char* name, std::string_view file) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  if (PyUnicode_CompareWithASCIIString(code->co_name, name) != 0) return false;
  const char* path = PyUnicode_AsUTF8(code->co_filename);
  return path && std::string_view(path).ends_with(file);
}

PyTypeObject* generatorType() {
  static constinit watch::Once<PyObject*> type;
  return reinterpret_cast<PyTypeObject*>(type.get([] { return watch::importedAttribute("_random", "Random"); }));
}

bool isDeque(PyObject* object) { return std::string_view(nativeBase(Py_TYPE(object))->tp_name) == "collections.deque"; }

bool isDefaultDict(PyObject* object) {
  return std::string_view(nativeBase(Py_TYPE(object))->tp_name) == "collections.defaultdict";
}

bool isDerivedValue(PyObject* object) {
  if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  return PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object) || PyUnicode_Check(object) ||
         PyBytes_Check(object);
}

bool comparesByIdentity(PyObject* object) {
  return Py_TYPE(object)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

bool comparesInPython(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("__eq__");
  PyObject* found = isPythonClass(Py_TYPE(object)) ? _PyType_Lookup(Py_TYPE(object), name) : nullptr;
  return found && PyFunction_Check(found);
}

namespace {

std::string asText(PyObject* text) {
  const char* data = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  PyErr_Clear();
  return data ? data : "";
}

}  // namespace

std::string textAttribute(PyObject* object, const char* attribute) {
  return asText(Ref::steal(PyObject_GetAttrString(object, attribute)).get());
}

// Functions of C keep it where it is read without making a text of Python's: most calls ask for it.
std::string nameOf(PyObject* callable) {
  static PyObject* const key = PyUnicode_InternFromString("__name__");
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name;
  PyTypeObject* type = Py_TYPE(callable);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type) {
    return asText(PyDescr_NAME(callable));
  }
  return asText(Ref::steal(PyObject_GetAttr(callable, key)).get());
}

Ref itemsOf(PyObject* container) {
  if (PyList_Check(container)) return Ref::steal(PyList_AsTuple(container));
  if (PyTuple_Check(container)) return Ref::steal(PyTuple_GetSlice(container, 0, PyTuple_GET_SIZE(container)));
  Ref iterator = Ref::steal(nativeBase(Py_TYPE(container))->tp_iter(container));
  return iterator ? Ref::steal(PySequence_Tuple(iterator.get())) : Ref();
}

Py_ssize_t lengthOf(PyObject* container) {
  if (PyDict_Check(container)) return PyDict_GET_SIZE(container);
  if (PyList_Check(container) || PyTuple_Check(container)) return Py_SIZE(container);
  if (PyAnySet_Check(container)) return PySet_GET_SIZE(container);
  const PyTypeObject* base = nativeBase(Py_TYPE(container));  // what its class says is not asked
  lenfunc length = base->tp_as_sequence ? base->tp_as_sequence->sq_length : nullptr;
  if (!length && base->tp_as_mapping) length = base->tp_as_mapping->mp_length;
  Py_ssize_t count = length ? length(container) : -1;
  if (count < 0) PyErr_Clear();
  return count;
}

Ref keysInOrder(PyObject* dict) {
  if (!PyODict_Check(dict)) {
    Ref keys = Ref::steal(PyDict_Keys(dict));
    return keys ? Ref::steal(PyList_AsTuple(keys.get())) : Ref();
  }
  Ref iterator = Ref::steal(PyODict_Type.tp_iter(dict));
  return iterator ? Ref::steal(PySequence_Tuple(iterator.get())) : Ref();
}

namespace {

bool isOfAtomType(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return object == Py_None || type == &PyLong_Type || type == &PyUnicode_Type || type == &PyBool_Type ||
         type == &PyFloat_Type || type == &PyBytes_Type || type == &PyComplex_Type || object == Py_Ellipsis ||
         object == Py_NotImplemented || isTorchConstant(type) || type == &PyRange_Type || type == &PyCode_Type ||
         numpy::isScalar(object);
}

bool isEnumMember(PyObject* object) {
  PyTypeObject* meta = Py_TYPE(Py_TYPE(object));
  if (std::string_view(meta->tp_name).ends_with("pybind11_type")) {
    static PyObject* const members = PyUnicode_InternFromString("__members__");
    return _PyType_Lookup(Py_TYPE(object), members) != nullptr;
  }
  return meta != &PyType_Type &&
         (std::string_view(meta->tp_name) == "EnumType" || std::string_view(meta->tp_name) == "EnumMeta");
}

// int | str: a class of C that has no name to include.
bool isUnion(PyObject* object) {
  static constinit watch::Once<PyObject*> found;
  PyObject* type = found.get([] { return watch::importedAttribute("types", "UnionType"); });
  return Py_IS_TYPE(object, reinterpret_cast<PyTypeObject*>(type));
}

bool isOperator(PyObject* object) {
  std::string_view name = Py_TYPE(object)->tp_name;
  return name == "numpy.ufunc" || name == "numpy._ArrayFunctionDispatcher" || name == "OpOverload" ||
         name == "OpOverloadPacket" || name == "_OpNamespace" || name == "_Ops" ||
         name == "builtin_function_or_method" || name == "torch._C._PyObjectDispatchFunc" ||
         name == "torch._C.Generator" || name == "re.Pattern";
}

}  // namespace

bool isGlobalFunction(PyObject* object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  PyObject* found = PyDict_GetItemWithError(function->func_globals, function->func_name);
  if (!found) PyErr_Clear();
  return found == object;
}

namespace {

bool isOfNamedType(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return PyType_Check(object) || type == &PyFunction_Type || PyCFunction_Check(object) || PyModule_Check(object) ||
         type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyGetSetDescr_Type ||
         type == &PyMemberDescr_Type || type == &PyInstanceMethod_Type || type == &PyClassMethodDescr_Type ||
         type == &PyProperty_Type || type == &PyStaticMethod_Type || type == &PyClassMethod_Type ||
         PyType_IsSubtype(type, &Py_GenericAliasType) || isUnion(object) || isEnumMember(object) ||
         isOperator(object) || numpy::isDtype(object);
}

}  // namespace

namespace {

// The type decides, and is asked about again and again. Its version tells it from one that had the same address.
template <bool (*decide)(PyObject* object)>
bool byType(PyObject* object) {
  struct Known {
    const PyTypeObject* type;
    unsigned version;
    bool answer;
  };
  static Known known[512];  // under the interpreter's lock
  const PyTypeObject* type = Py_TYPE(object);
  Known& entry = known[(reinterpret_cast<uintptr_t>(type) >> 4) % std::size(known)];
  if (entry.type != type || entry.version != type->tp_version_tag || entry.version == 0) {
    entry = {type, type->tp_version_tag, decide(object)};
  }
  return entry.answer;
}

bool isOfNumpyConstants(PyObject* object) {
  return numpy::isDtype(object) || numpy::isScalar(object) || numpy::isDtypeClass(object);
}

}  // namespace

bool isAtom(PyObject* object) { return byType<isOfAtomType>(object); }
bool isNamed(PyObject* object) { return byType<isOfNamedType>(object); }
bool isNumpyConstant(PyObject* object) { return byType<isOfNumpyConstants>(object); }

}  // namespace saker::frontend
