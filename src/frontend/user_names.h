// What users call things: compiled functions, their parameters, and objects that a guard expected or found. No code of
// the program runs for it.
#pragma once

#include <Python.h>

#include <string>
#include <vector>

namespace saker::frontend {

// A compiled function: its name with its module, or the class of a module.
std::string functionName(PyObject* function);
// Where it is defined; an empty file where that is not known.
struct Definition {
  std::string file;
  int line = 0;
};
Definition definitionOf(PyObject* function);

// The names in the definition of a function, by which guards name arguments.
struct UserNames {
  std::vector<std::string> parameters;  // by position
  std::string rest;                     // of *args; empty: there is none
  std::string module;                   // whose globals need no name in front
  PyObject* self = nullptr;             // the object that is called, or whose method is; borrowed, for comparing only

  std::string positional(size_t index) const;
};
UserNames namesOf(PyObject* callable);

// A class or function with its module; Python's own without one.
std::string shownName(PyObject* object);
// An object in a few words: a number or string as it is written, a function or class by its name, else its type.
std::string inWords(PyObject* object);

}  // namespace saker::frontend
