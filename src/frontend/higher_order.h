// Operators of torch.ops.higher_order in a call that is watched: they are called below the watched loop, which goes on
// in the functions that they are given. These run on stand-ins, and what they change outside is refused.
#pragma once

#include <Python.h>

#include "watch/observer.h"

namespace saker::frontend {

class Recorder;

namespace higher_order {

// What takes the place of an operator that can be recorded, or of the function that calls these, a new reference;
// nullptr: `callable` is something else.
PyObject* insteadOf(PyObject* callable);
bool isOperator(PyObject* callable);
// Is a transform of torch.func around the code that runs?
bool inTransform();
// Is this the apply of a torch.autograd.Function, as C has it?
bool appliesFunction(PyObject* callable);
// What takes its place where operators do not run, a new reference: a Python function that calls the forward. nullptr:
// `callable` is something else, or a transform is around.
PyObject* insteadOfApply(PyObject* callable);
// The same inside of a Function's forward or backward, where autograd is off and operators run.
PyObject* insteadOfInnerApply(PyObject* callable);
// Of torch.get_rng_state and its like, where operators do not run: operators of the graph.
PyObject* insteadOfSeed(PyObject* callable);
bool calls(Recorder& recorder);

}  // namespace higher_order
}  // namespace saker::frontend
