// The table of C-level operations: what a builtin function, a method of a builtin type or a C attribute reads and does.
// What is not in the table is unknown, and ends what can be replayed; a missing entry costs speed, a wrong one would
// cost correctness.
#pragma once

#include <Python.h>
#include <c10/util/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace saker::frontend {

enum class Behaviour : uint8_t {
  Unknown,
  Pure,      // its result follows from what its arguments hold, all levels down
  Shallow,   // it looks at the types of its arguments, not inside
  Length,    // it asks how long its first argument is
  Lookup,    // it looks a key up in its first argument
  Content,   // it gives the elements of its first argument
  Identity,  // it tells which object its argument is
  Belongs,   // it asks whether its first argument, or the class of it, is one of the classes of the second
  OfClass,   // the same, with the class first
  Text,      // it makes a text of its arguments
  Callable,  // it asks what the types of its arguments can do
  OfError,   // it changes its first argument, an exception
  Mutates,   // it changes its first argument, a container
  ReadsAttribute,
  WritesAttribute,
  DeletesAttribute,
  Advances,   // it takes the next element of an iterator
  Tensor,     // PyTorch's dispatcher sees what it does
  Host,       // the world sees what it does: it is done again
  Warns,      // it tells a warning, which is done again
  Gradients,  // it takes gradients
  Ambient,    // state around operators, which is compared at the end
  Asks,       // it tells something that may change at any time, and is asked again
  Sets,       // it sets one, between operators
  Locks,      // it takes or releases its first argument, a lock
  ContextGet,
  ContextSet,
};

class Operations {
 public:
  // One table for the process, made when first asked for.
  static const Operations& table();

  // A builtin function, a method descriptor, a slot wrapper, a bound one of these, or a type that is called.
  Behaviour ofCall(PyObject* callable) const;
  // An attribute that C code computes: a getset or member descriptor found on a type.
  Behaviour ofDescriptor(PyObject* descriptor) const;
  // Is this a C type whose operators (+, [], in, iteration) are pure functions of what it holds?
  bool isValueType(PyTypeObject* type) const { return valueTypes_.count(type) != 0; }
  bool isIterator(PyTypeObject* type) const { return iterators_.count(type) != 0; }
  // What a callable is called in messages.
  static std::string name(PyObject* callable);

 private:
  Operations();
  void add(Behaviour behaviour, const char* owner, std::string_view names);
  void addAll(Behaviour behaviour, const char* owner);
  void addTensors();
  void put(Behaviour behaviour, PyObject* object);
  static const void* keyOf(PyObject* callable);

  ska::flat_hash_map<const void*, Behaviour> calls_;
  ska::flat_hash_map<const void*, Behaviour> descriptors_;
  ska::flat_hash_map<const PyTypeObject*, bool> valueTypes_, iterators_;
};

}  // namespace saker::frontend
