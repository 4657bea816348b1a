// PyTorch's Python objects, as C++ sees them. PyTorch's own headers for this include all of pybind11, which costs each
// file that includes them several seconds to compile: they are included behind this one.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include "watch/ref.h"

namespace saker {

PyTypeObject* tensorClass();  // torch.Tensor
// Has its class a __torch_function__ of its own, which PyTorch's functions ask?
bool answersFunctions(PyObject* tensor);
PyTypeObject* functionClass();  // torch._C._FunctionBase
PyTypeObject* sizeClass();      // torch.Size
// torch.dtype, torch.device, torch.layout, torch.memory_format: their instances never change.
bool isTorchConstant(PyTypeObject* type);
bool isDtype(PyObject* object);  // an instance of torch.dtype

// Is a class of tensors one whose __torch_function__ is asked, and not turned off as that of nn.Parameter?
bool answersCalls(PyTypeObject* type);

bool isTensor(PyObject* object);  // by its class alone: asking PyTorch runs code
const at::Tensor& tensorOf(PyObject* tensor);
// A new reference; nullptr with an error set where it fails.
PyObject* wrapTensor(const at::Tensor& tensor);
PyObject* wrapStorage(const c10::Storage& storage);

// Symbolic ints as torch.SymInt, or int where they are numbers.
Ref wrapSymInt(const c10::SymInt& number);
c10::SymInt symIntOf(PyObject* number);

}  // namespace saker
