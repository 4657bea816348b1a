// Numbers that a recording was made for and that are others now: what kept a call from being replayed.
#pragma once

#include <string>
#include <vector>

#include "frontend/guards.h"

namespace saker::frontend {

struct ChangedNumber {
  std::string place;  // as a Python expression
  Ref value;          // as it is now
  // The dict in which it lies, and its key; none where it is an argument, or lies elsewhere.
  Ref dict, key;
};

// Floats of arguments, attributes, closures and globals.
std::vector<ChangedNumber> changedFloats(const Guards& guards, const CallArguments& call);
// Ints in the dicts of objects and in globals, but not in arguments; those that were symbols already are among them.
std::vector<ChangedNumber> changedCounters(const Guards& guards, const CallArguments& call);

}  // namespace saker::frontend
