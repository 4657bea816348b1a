// The doors through which Python code can see that a number is a symbol: in a call that is followed with symbolic sizes
// it must see an int or a float. Arithmetic and comparisons are the symbol's own; some functions of C are replaced by
// ones that answer as for a number; what all others would see is named here, so that the recorder can refuse it.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "frontend/operations.h"
#include "watch/observer.h"

namespace saker::frontend::doors {

// What a torch.SymInt, torch.SymFloat or torch.SymBool stands for.
enum class Number : uint8_t { None, Int, Float, Bool };
Number kindOf(PyObject* object);
inline bool isSymbol(PyObject* object) { return kindOf(object) != Number::None; }
// The first symbol in an object that functions of C look into (a container, a slice, an iterator, an exception);
// borrowed, nullptr where there is none.
PyObject* symbolIn(PyObject* object, int depth = 0);

// Each of these gives a symbol that an operation would see for what it is; nullptr where it sees a number.
PyObject* seenByUnary(watch::Unary op, PyObject* operand);
PyObject* seenByBinary(watch::Binary op, PyObject* left, PyObject* right);
PyObject* seenByComparison(PyObject* left, PyObject* right);
PyObject* seenByIdentity(PyObject* left, PyObject* right);
PyObject* seenByContains(PyObject* container, PyObject* item);
PyObject* seenByItem(PyObject* container, PyObject* key);
// `args` has the object that a method is bound to first.
PyObject* seenByCall(Behaviour behaviour, PyObject* callable, const std::vector<PyObject*>& args);

// A function of C among the arguments of another one, which would call it out of sight, and which may look at what it
// is given; nullptr where there is none.
PyObject* callsUnseen(const std::vector<PyObject*>& args);

// isinstance, type, int, float and functions of math, for symbols: what is called in their place; nullptr for other
// callables.
PyObject* insteadOf(PyObject* callable);
// The function that one of these stands for; nullptr for other callables.
PyObject* standsFor(PyObject* callable);
// The same question as above, of a call of one of these.
PyObject* seenInstead(PyObject* callable, const std::vector<PyObject*>& args);

}  // namespace saker::frontend::doors
