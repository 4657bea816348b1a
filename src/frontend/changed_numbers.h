// Numbers that a recording was made for and that are others now: what kept a call from being replayed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "frontend/guards.h"

namespace saker::frontend {

// Where a number lies: under a key of a dict, in a cell, at an index of a list, in a slot of an object.
struct NumberHolder {
  enum class Kind : uint8_t { None, Dict, Cell, List, Slot } kind = Kind::None;
  PyObject* owner = nullptr;  // borrowed
  PyObject* key = nullptr;    // of Dict
  int64_t at = 0;             // of List: its index; of Slot: its offset

  void put(PyObject* number) const;
  bool operator==(const NumberHolder&) const = default;
};

struct ChangedNumber {
  std::string place;    // see Guards::expression
  Ref value;            // as it is now
  NumberHolder holder;  // none where it is an argument, or cannot be put elsewhere
  Ref owner, key;       // keep what the holder names
};

// Floats of arguments, attributes, closures and globals.
std::vector<ChangedNumber> changedFloats(const Guards& guards, const CallArguments& call);
// Floats at some of the places that guards look at, as far as something outside of the arguments holds them.
std::vector<ChangedNumber> floatsAt(const Guards& guards, const CallArguments& call,
                                    const std::set<std::string>& places);
// Ints that something outside of the arguments holds: dicts of objects, globals, closures, lists, slots (those of
// objects among the arguments too). Those that were symbols already are among them.
std::vector<ChangedNumber> changedCounters(const Guards& guards, const CallArguments& call);

}  // namespace saker::frontend
