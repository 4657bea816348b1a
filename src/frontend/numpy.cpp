#include "frontend/numpy.h"

#include <torch/csrc/utils/tensor_numpy.h>

#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_set>

#include "aten/trace_key.h"
#include "frontend/kinds.h"

namespace saker::frontend::numpy {

namespace {

struct Types {
  PyTypeObject* array = nullptr;
  PyTypeObject* generic = nullptr;
  PyTypeObject* dtype = nullptr;
  PyObject* asArray = nullptr;
};

// Looked for until it is there: Saker does not import numpy.
const Types* types() {
  static Types found;
  if (found.array) return &found;
  static PyObject* const name = PyUnicode_InternFromString("numpy");
  Ref module = Ref::steal(PyImport_GetModule(name));
  auto part = [&](const char* attribute) { return PyObject_GetAttrString(module.get(), attribute); };
  if (!module) return nullptr;
  found.generic = reinterpret_cast<PyTypeObject*>(part("generic"));
  found.dtype = reinterpret_cast<PyTypeObject*>(part("dtype"));
  found.asArray = part("asarray");
  PyObject* array = part("ndarray");
  PyErr_Clear();
  if (found.generic && found.dtype && found.asArray) found.array = reinterpret_cast<PyTypeObject*>(array);
  return found.array ? &found : nullptr;
}

bool ofNumpy(const std::string& module) { return module == "numpy" || module.starts_with("numpy."); }

}  // namespace

bool isArray(PyObject* object) {
  const Types* all = types();
  return all && Py_IS_TYPE(object, all->array);
}

bool isScalar(PyObject* object) {
  const Types* all = types();
  return all && PyType_IsSubtype(Py_TYPE(object), all->generic);
}

bool isDtype(PyObject* object) {
  const Types* all = types();
  return all && PyType_IsSubtype(Py_TYPE(object), all->dtype);
}

bool isDtypeClass(PyObject* object) { return std::string_view(Py_TYPE(object)->tp_name) == "numpy._DTypeMeta"; }

namespace {

// Methods of generators are such functions since NumPy 2, and plain C functions before.
bool isCython(PyObject* callable) {
  return std::string_view(Py_TYPE(callable)->tp_name).ends_with("cython_function_or_method");
}

bool isGeneratorClass(PyTypeObject* type) { return std::string_view(type->tp_name).starts_with("numpy.random."); }

}  // namespace

PyObject* boundGenerator(PyObject* callable) {
  PyObject* self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  return self && isGeneratorClass(Py_TYPE(self)) ? self : nullptr;
}

bool draws(PyObject* callable) {
  bool method = Py_IS_TYPE(callable, &PyMethodDescr_Type) && isGeneratorClass(PyDescr_TYPE(callable));
  return method || isCython(callable) || boundGenerator(callable);
}

bool isFunction(PyObject* callable) {
  if (!types()) return false;
  std::string_view kind = Py_TYPE(callable)->tp_name;
  if (kind == "numpy.ufunc" || kind == "numpy._ArrayFunctionDispatcher") return true;
  if (PyType_Check(callable)) {
    auto* type = reinterpret_cast<PyTypeObject*>(callable);
    return PyType_IsSubtype(type, types()->generic) || type == types()->array || type == types()->dtype;
  }
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    if (self && (isArray(self) || isScalar(self) || isGeneratorClass(Py_TYPE(self)))) return true;
    return ofNumpy(moduleOf(callable));
  }
  if (isCython(callable)) return ofNumpy(moduleOf(callable));
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
    PyTypeObject* owner = PyDescr_TYPE(callable);
    return PyType_IsSubtype(owner, types()->array) || PyType_IsSubtype(owner, types()->generic) ||
           isGeneratorClass(owner);
  }
  return false;
}

bool isRepeatable(PyObject* callable, PyObject* names) {
  static const std::unordered_set<std::string> writing = {
      "put",  "place",  "copyto",    "fill_diagonal", "putmask",  "put_along_axis", "sort",
      "fill", "resize", "partition", "setflags",      "setfield", "setitem",        "iadd",
      "isub", "imul",   "itruediv",  "ifloordiv",     "imod",     "ipow",           "iand",
      "ior",  "ixor",   "ilshift",   "irshift",       "imatmul",  "shuffle",        "byteswap"};
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "out") == 0) return false;
  }
  return !draws(callable) && !writing.contains(nameOf(callable));
}

bool isFiniteScalar(PyObject* object) {
  if (!isScalar(object) || std::string_view(Py_TYPE(object)->tp_name).starts_with("numpy.c")) return false;  // complex
  double value = PyFloat_AsDouble(object);
  if (PyErr_Occurred()) PyErr_Clear(), value = NAN;
  return std::isfinite(value);
}

bool tellsGeometry(PyObject* callable) {
  static const std::unordered_set<std::string> names = {"shape",
                                                        "ndim",
                                                        "size",
                                                        "result_type",
                                                        "can_cast",
                                                        "iscomplexobj",
                                                        "isrealobj",
                                                        "issubdtype",
                                                        "promote_types",
                                                        "min_scalar_type",
                                                        "isscalar",
                                                        "broadcast_shapes",
                                                        "may_share_memory",
                                                        "__len__"};
  return names.contains(nameOf(callable));
}

bool isWriteable(PyObject* array) {
  Ref flags = Ref::steal(PyObject_GetAttrString(array, "flags"));
  Ref writeable = flags ? Ref::steal(PyObject_GetAttrString(flags.get(), "writeable")) : Ref();
  PyErr_Clear();
  return writeable.get() == Py_True;
}

std::optional<at::Tensor> toTensor(PyObject* object) {
  const Types* all = types();
  if (!all) return std::nullopt;
  Ref array = isScalar(object) ? Ref::steal(PyObject_CallOneArg(all->asArray, object)) : Ref::borrow(object);
  if (!array) {
    PyErr_Clear();
    return std::nullopt;
  }
  try {
    aten::RunForReal real;  // no operator of the program's
    return torch::utils::tensor_from_numpy(array.get(), /*warn_if_not_writeable=*/false);
  } catch (const std::exception&) {
    PyErr_Clear();
    return std::nullopt;
  }
}

Ref fromTensor(const at::Tensor& tensor, bool scalar) {
  aten::RunForReal real;
  Ref array = Ref::steal(torch::utils::tensor_to_numpy(tensor));
  if (!array || !scalar) return array;
  Ref whole = Ref::steal(PyTuple_New(0));
  return Ref::steal(PyObject_GetItem(array.get(), whole.get()));
}

bool sameScalar(PyObject* left, PyObject* right) {
  Py_buffer a, b;
  if (PyObject_GetBuffer(left, &a, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    return false;
  }
  bool same = false;
  if (PyObject_GetBuffer(right, &b, PyBUF_SIMPLE) == 0) {
    same = a.len == b.len && std::memcmp(a.buf, b.buf, static_cast<size_t>(a.len)) == 0;
    PyBuffer_Release(&b);
  } else {
    PyErr_Clear();
  }
  PyBuffer_Release(&a);
  return same;
}

}  // namespace saker::frontend::numpy
