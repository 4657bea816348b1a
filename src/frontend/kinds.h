// What kind of object something is, by its type alone: no code of the program runs.
#pragma once

#include <Python.h>

#include <string>
#include <string_view>
#include <vector>

#include "watch/ref.h"

namespace saker::frontend {

// What kind of object this is to a guard.
bool isAtom(PyObject* object);           // a number, a string: its value is all there is
bool isNumpyConstant(PyObject* object);  // a scalar or dtype of NumPy's, or the class of one
// A function that its module has under its name: it is not made anew for each call.
bool isGlobalFunction(PyObject* function);
bool isNamed(PyObject* object);  // a class, a function, a module: which one it is is all there is
// A class statement made it. Types that C code makes may live on the heap as well (functools.partial does).
bool isPythonClass(PyTypeObject* type);
// The type of C that decides how instances are made.
PyTypeObject* nativeBase(PyTypeObject* type);
// The generators of Python's random numbers, as C code sees them.
PyTypeObject* generatorType();
bool isDeque(PyObject* object);
bool isDefaultDict(PyObject* object);
// An instance of a class that derives from int, float, complex, str or bytes.
bool isDerivedValue(PyObject* object);
// == tells which object it is, and nothing more.
bool comparesByIdentity(PyObject* object);
// == runs code of the program.
bool comparesInPython(PyObject* object);
// What an attribute says in text; empty where it says nothing.
std::string textAttribute(PyObject* object, const char* attribute);
std::string nameOf(PyObject* callable);  // its __name__
inline std::string moduleOf(PyObject* callable) { return textAttribute(callable, "__module__"); }
// One of a call's arguments, those of keywords last: by position or by name. nullptr: it is not given.
PyObject* argumentOf(const std::vector<PyObject*>& args, PyObject* names, size_t index, const char* name);
// A threading.local, and its dict of this thread, which it holds.
bool isThreadLocal(PyObject* object);
PyObject* dictOfThread(PyObject* local);
// Is this the function of that name in a file whose path ends like this?
bool isPartOf(PyObject* function, const char* name, std::string_view file);
// What a list, a tuple, a set or a deque holds, as a tuple: its class may give something else when it is iterated.
Ref itemsOf(PyObject* container);
// How many that or another container of C holds; -1: it is none.
Py_ssize_t lengthOf(PyObject* container);
// The keys of a dict as iteration gives them, as a tuple; those of an OrderedDict stand in another order than its
// table.
Ref keysInOrder(PyObject* dict);

}  // namespace saker::frontend
