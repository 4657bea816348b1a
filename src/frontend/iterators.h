// Iterators of builtin types as they lie in memory: where one stands, and what it gives elements of.
#pragma once

#include <Python.h>

#include <cstddef>
#include <vector>

#include "watch/ref.h"

namespace saker::frontend::iterators {

// Offsets in an iterator.
struct Layout {
  std::vector<size_t> numbers;  // words that say where it stands
  std::vector<size_t> objects;  // what it gives elements of; cleared at its end, in some types
};

// nullptr: iterators of this type are not known.
const Layout* layoutOf(PyTypeObject* type);

// Where an iterator of a known type stands, as bytes.
Ref positionOf(PyObject* iterator);
bool standsAt(PyObject* iterator, PyObject* position);
// What it holds at an offset, or nullptr.
inline PyObject*& heldAt(PyObject* iterator, size_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(iterator) + offset);
}

// A function of C, leave(iterator, how, cleared). A generator that has not begun is ended, if `how` is True. A builtin
// iterator is put at the position `how`, and lets go of the objects whose bits are set in `cleared`.
PyObject* leaveFunction();

}  // namespace saker::frontend::iterators
