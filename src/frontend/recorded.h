// Parts of a recording that a replay uses as they are.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <vector>

#include "frontend/guards.h"
#include "watch/ref.h"

namespace saker::frontend {

// An argument, or something in one, that is given as a stand-in of symbolic sizes, and what it stands for. An int that
// is a symbol is the size of a tensor without elements, a float what a tensor holds.
struct StandIn {
  size_t index;  // among the values of the call
  Path path;
  at::Tensor real;
  std::vector<size_t> dims;
  bool number = false;
  Ref given;

  bool isFloat() const { return number && real.dim() == 0; }
};

// What the call did with a generator of Python's random numbers. It is done again before the graph runs, in order: a
// float is an input of the graph then, everything else must come out the same.
struct Draw {
  Ref method;                  // of C, unbound; none: a generator is made, of the class that is the first argument
  uint32_t generator = ~0u;    // its place
  std::vector<Ref> arguments;  // numbers, strings, states
  Ref expected;                // what comes back, unless it is a float
  uint32_t place = ~0u;        // of a float, or of the generator that is made
};

// A question to C code that the call asked, and the answer: a flag of PyTorch's, the limit of recursion, whether a
// tensor is a view. It is asked again before a replay.
struct Asked {
  Ref function, arguments, answer;
  std::vector<uint32_t> places;  // by argument: where it is found; kInside: it is the one in `arguments`
  bool users = false;            // a function under saker.allow(), not C code
};

// Asks, with `found` by place. Nothing where that raises; no error is left set.
Ref askAgain(const Asked& asked, const std::vector<PyObject*>& found);
// Equal numbers and texts, the same classes and functions, or lists and tuples of such.
bool sameAnswer(PyObject* left, PyObject* right);

// A class that the call made by collections.namedtuple: what it is made of again.
struct NamedClass {
  Ref function, arguments, keywords;
};

}  // namespace saker::frontend
