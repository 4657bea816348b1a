// Functions of PyTorch's that call the program's own from below: hooks on what autograd saves, and checkpoints. What
// they do themselves is not recorded, and is done again by PyTorch.
#pragma once

#include <Python.h>

#include <string>

#include "watch/observer.h"

namespace saker::frontend {

class Recorder;

namespace around {

// torch._C._autograd._push_saved_tensors_default_hooks, and what takes its place: the hooks run unwatched.
PyObject* push();
PyObject* hiddenPush();
inline bool isPush(PyObject* callable) { return callable == hiddenPush(); }

// A flag of PyTorch's that functions of one name set and tell.
std::string flagOf(PyObject* callable);

// torch.use_deterministic_algorithms, which tells torch.compile as well: called as it is.
bool isFlagSetter(PyObject* function);

// torch.utils.checkpoint.checkpoint, or a functools.partial of it: what takes its place, a new reference; nullptr:
// `callable` is something else. The function that is checkpointed is watched, and nothing else.
PyObject* insteadOfCheckpoint(PyObject* callable);
bool isCheckpoint(PyObject* callable);
bool checkpoints(Recorder& recorder, PyObject* callable, const watch::Arguments& arguments);

}  // namespace around
}  // namespace saker::frontend
