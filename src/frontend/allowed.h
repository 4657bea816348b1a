// Functions that saker.allow() declares: what they give depends on their arguments alone, and they change nothing. A
// replay calls them again in place of following what they do.
#pragma once

#include <Python.h>

namespace saker::frontend {

void allow(PyObject* callable);
// Is it one of them, or a method of one bound to an object?
bool isAllowed(PyObject* callable);

}  // namespace saker::frontend
