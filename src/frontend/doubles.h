// Copies of a call's arguments in which tensors and numbers are replaced by stand-ins: what is followed on them can
// change them, and nothing else has changed.
#pragma once

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/guards.h"

namespace saker::frontend {

// What is there, borrowed; nullptr: nothing.
PyObject* follow(PyObject* from, std::span<const Step> path);

class Doubles {
 public:
  // Replaces `argument` by a copy, unless it is one, in which `path` leads to `standIn`. False: something on the way
  // cannot be copied.
  bool put(PyObject*& argument, std::span<const Step> path, PyObject* standIn);
  bool isDouble(PyObject* object) const { return made_.contains(object); }

 private:
  PyObject* doubleOf(PyObject* original);
  std::unordered_map<PyObject*, Ref> doubles_;  // by original
  std::unordered_set<PyObject*> made_;
};

}  // namespace saker::frontend
