// What the world outside of the call sees while it runs: printed text, and locks that are taken.
#pragma once

#include <unordered_map>

#include "frontend/subject.h"

namespace saker::frontend {

class World final : public SubjectOf<World> {
 public:
  using SubjectOf::SubjectOf;

  // Locks from outside that the call takes.
  const std::vector<Ref>& locks() const { return locks_; }
  // Is one still taken?
  bool holdsLocks() const;
  Answer behaves(Behaviour behaviour, PyObject* callable, const Values& args, PyObject* names) override;

 private:
  bool prints(PyObject* callable, Values args, PyObject* names);
  bool takes(PyObject* lock, const std::string& method);

  std::vector<Ref> locks_;
  std::unordered_map<PyObject*, int> held_;
};

}  // namespace saker::frontend
