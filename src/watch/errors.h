// Exceptions as CPython's interpreter raises them.
#pragma once

#include <Python.h>

namespace saker::watch {

inline constexpr const char* unknownName = "name '%.200s' is not defined";
inline constexpr const char* unboundLocalName =
    "cannot access local variable '%s' where it is not associated with a value";
inline constexpr const char* unboundFreeName =
    "cannot access free variable '%s' where it is not associated with a value in enclosing scope";

// Raises with the name in the text, and in the attribute `name` of a NameError.
void raiseForName(PyObject* type, const char* format, PyObject* name);
// For the local, cell or free variable in a slot.
void raiseUnbound(PyCodeObject* code, int slot);

// The exception that is set, as an object with its traceback; clears it. New reference.
PyObject* takeRaised();
// Sets the exception, with the traceback that it has. Steals.
void setRaised(PyObject* exception);

}  // namespace saker::watch
