// What isinstance asks of an object.
#pragma once

#include <Python.h>

namespace saker::frontend {

// Classes, or a tuple of them, whose __instancecheck__ looks at the class of an object, not at its value.
bool asksClassOnly(PyObject* classes, int depth = 0);

}  // namespace saker::frontend
