// What the node of a torch.autograd.Function has saved for its backward.
#pragma once

#include <Python.h>

#include <cstddef>

#include "watch/ref.h"

namespace saker::frontend {

// May what it has saved be unpacked without running code of the user's?
bool savesPlainly(PyObject* node);
// Tensor `number` of them, or None. Nothing where it cannot be had, or where they are not as many as the list `count`
// says; no error is left set.
Ref savedTensor(PyObject* node, size_t number, PyObject* count);

}  // namespace saker::frontend
