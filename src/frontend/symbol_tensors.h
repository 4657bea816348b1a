// torch.tensor and torch.as_tensor of numbers some of which are symbols, in a call that is followed with symbolic
// sizes: PyTorch fills memory with the numbers it sees, so operators that take symbols make the tensor in its place.
#pragma once

#include <Python.h>

#include "frontend/callables.h"
#include "watch/observer.h"

namespace saker::frontend::doors {

// What is called in the place of these two; nullptr for other callables.
PyObject* tensorInstead(PyObject* callable);
// The one of the two that this stands for; nullptr for other callables.
PyObject* tensorFunction(PyObject* standIn);
// The first symbol among the arguments of such a call, which the original must not see; nullptr where there is none.
PyObject* symbolForTensor(const watch::Arguments& arguments);
// May operators make the tensor: numbers in lists of equal lengths, and no other argument than dtype and device?
bool canMakeTensor(const watch::Arguments& arguments);

}  // namespace saker::frontend::doors
