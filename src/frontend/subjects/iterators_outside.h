// Iterators that were made before the call, as the program takes elements from them. A generator that has not begun is
// known by its code and its variables, a builtin iterator by where it stands and what it goes through; a replay leaves
// them as the call did. Generators that have begun, or that the call leaves in the middle, make it run eagerly.
#pragma once

#include <unordered_set>

#include "frontend/subject.h"

namespace saker::frontend {

class OutsideIterators final : public SubjectOf<OutsideIterators> {
 public:
  using SubjectOf::SubjectOf;

  // Has the call taken something from one?
  bool any() const { return !consumed_.empty(); }
  // The call is about to take something from an iterator: what it will read is guarded.
  bool consumes(PyObject* iterator);
  // Is the body of a generator from outside entered, by this function?
  bool enters(PyObject* function);
  std::optional<Stop> seal() override;

 private:
  struct Consumed {
    Ref iterator;
    std::vector<PyObject*> held;  // by slot of a builtin iterator: what was there
  };
  bool consumesGenerator(PyObject* generator, uint32_t place);
  bool consumesBuiltin(PyObject* iterator, uint32_t place);

  std::vector<Consumed> consumed_;
  std::unordered_set<PyObject*> consuming_;
  std::unordered_multiset<PyObject*> functions_;  // of generators from outside, until their body is entered
};

}  // namespace saker::frontend
