// What is known of numpy: its types, its functions, and its arrays as tensors over the same memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <optional>

#include "watch/ref.h"

namespace saker::frontend::numpy {

// These are false as long as the program has not imported numpy.
bool isArray(PyObject* object);         // numpy.ndarray itself, no subclass
bool isScalar(PyObject* object);        // an instance of numpy.generic
bool isFiniteScalar(PyObject* object);  // a real number, neither infinite nor nan
bool isDtype(PyObject* object);
bool isDtypeClass(PyObject* object);
// A method of a generator of random numbers. It is given the generator, or bound to it (boundGenerator).
bool draws(PyObject* callable);
PyObject* boundGenerator(PyObject* callable);
// A function, method or type of numpy's that C code or numpy's own Python code runs.
bool isFunction(PyObject* callable);
// Would calling it again, after a failure, be as if it had not been called before?
bool isRepeatable(PyObject* callable, PyObject* names);
// Its result follows from the sizes and types of arrays, not from what they hold.
bool tellsGeometry(PyObject* callable);
bool isWriteable(PyObject* array);

// A tensor over the memory of an array, or over a copy of a scalar. Nothing: no tensor can be.
std::optional<at::Tensor> toTensor(PyObject* arrayOrScalar);
// An array over the memory of a tensor; with `scalar`, the number in it as a scalar of numpy's.
Ref fromTensor(const at::Tensor& tensor, bool scalar);
bool sameScalar(PyObject* left, PyObject* right);

}  // namespace saker::frontend::numpy
