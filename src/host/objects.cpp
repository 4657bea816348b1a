#include "host/objects.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/Size.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

namespace saker {

PyTypeObject* tensorClass() { return reinterpret_cast<PyTypeObject*>(THPVariableClass); }
PyTypeObject* functionClass() { return &THPFunctionType; }
PyTypeObject* sizeClass() { return &THPSizeType; }

bool isTorchConstant(PyTypeObject* type) {
  return type == &THPDtypeType || type == &THPDeviceType || type == &THPLayoutType || type == &THPMemoryFormatType;
}

bool isDtype(PyObject* object) { return Py_IS_TYPE(object, &THPDtypeType); }

bool answersCalls(PyTypeObject* type) {
  if (type == tensorClass()) return false;
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  static PyObject* const turnedOff = [] {
    Ref module = Ref::steal(PyImport_ImportModule("torch._C"));
    Ref found = Ref::steal(module ? PyObject_GetAttrString(module.get(), "_disabled_torch_function_impl") : nullptr);
    if (!found) PyErr_Clear();
    return found.release();
  }();
  return _PyType_Lookup(type, name) != turnedOff;
}

bool answersFunctions(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  PyTypeObject* type = Py_TYPE(tensor);
  return answersCalls(type) && _PyType_Lookup(type, name) != _PyType_Lookup(tensorClass(), name);
}

bool isTensor(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type == tensorClass()) return true;
  // The class of tensors is made by a class statement: no class of C derives from it.
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && PyType_IsSubtype(type, tensorClass());
}

const at::Tensor& tensorOf(PyObject* tensor) { return THPVariable_Unpack(tensor); }
PyObject* wrapTensor(const at::Tensor& tensor) { return THPVariable_Wrap(tensor); }
PyObject* wrapStorage(const c10::Storage& storage) { return THPStorage_Wrap(storage); }

Ref wrapSymInt(const c10::SymInt& number) { return Ref::steal(pybind11::cast(number).release().ptr()); }
c10::SymInt symIntOf(PyObject* number) { return pybind11::cast<c10::SymInt>(pybind11::handle(number)); }

}  // namespace saker
