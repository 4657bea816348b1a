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
  // Has a tensor been written to since it was printed? A replay prints what it is at the end.
  bool changesPrinted() const;
  Answer behaves(Behaviour behaviour, PyObject* callable, const Values& args, PyObject* names) override;

 private:
  struct Printed {
    Ref tensor;
    int64_t version;
  };
  bool prints(PyObject* callable, Values args, PyObject* names);
  bool mayPrint(PyObject* tensor);
  bool takes(PyObject* lock, const std::string& method);

  std::vector<Printed> printed_;
  std::vector<Ref> locks_;
  std::unordered_map<PyObject*, int> held_;
};

}  // namespace saker::frontend
