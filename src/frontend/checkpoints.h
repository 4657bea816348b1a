// torch.utils.checkpoint.checkpoint in a call that is watched. PyTorch's own code runs unwatched, the function that is
// checkpointed is watched and recorded in place, and its nodes are marked: a backward computes them again, as in eager
// mode. Where operators do not run (in bodies, and with symbolic sizes), the function alone is called.
#pragma once

#include <Python.h>

#include "watch/observer.h"

namespace saker::frontend {

class Recorder;

namespace checkpoints {

// checkpoint, or a functools.partial of it: what takes its place, a new reference; nullptr: `callable` is something
// else.
PyObject* insteadOf(PyObject* callable);
bool isCheckpoint(PyObject* callable);
bool calls(Recorder& recorder, PyObject* callable, const watch::Arguments& arguments);

}  // namespace checkpoints
}  // namespace saker::frontend
