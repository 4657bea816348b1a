// Functions of PyTorch's that change what surrounds operators: hooks on what autograd saves, and flags. What hooks do
// is not recorded, and is done again by PyTorch.
#pragma once

#include <Python.h>

#include <string>

namespace saker::frontend::around {

// torch._C._autograd._push_saved_tensors_default_hooks, and what takes its place: the hooks run unwatched.
PyObject* push();
PyObject* hiddenPush();
inline bool isPush(PyObject* callable) { return callable == hiddenPush(); }

// A flag of PyTorch's that functions of one name set and tell.
std::string flagOf(PyObject* callable);

// torch.use_deterministic_algorithms, which tells torch.compile as well: called as it is.
bool isFlagSetter(PyObject* function);

}  // namespace saker::frontend::around
