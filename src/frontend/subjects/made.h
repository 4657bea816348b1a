// Parameters, leaves and classes of named tuples that the call makes. A parameter is what its tensor becomes in the
// graph; the class of a named tuple is made again, by the same call, where it is needed to cook a result.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/subject.h"

namespace saker::frontend {

class MadeObjects final : public SubjectOf<MadeObjects> {
 public:
  using SubjectOf::SubjectOf;

  bool madeClass(PyObject* type) const { return classes_.contains(type); }
  // nullptr: the class was not made by collections.namedtuple, or was changed since.
  const NamedClass* namedClass(PyObject* type) const {
    auto found = namedClasses_.find(type);
    return found == namedClasses_.end() ? nullptr : &found->second;
  }
  void changedClass(PyObject* type) { namedClasses_.erase(type); }
  // Was this torch.nn.Parameter made by the call, so that the graph makes it again?
  bool madeParameter(PyObject* tensor) const { return parameters_.contains(tensor); }
  // requires_grad of a tensor is set.
  bool setsRequiresGrad(PyObject* tensor, PyObject* flag);
  // detach_() of a tensor is called, which passes no operator below autograd.
  bool detaches(PyObject* tensor);
  // Tensors from outside of which the call changes what autograd knows of them.
  const std::vector<PyObject*>& changedHistories() const { return histories_; }
  // Looks at the result of a call: is it a class or a leaf that the call made? True: nobody else has to.
  bool gave(PyObject* callable, PyObject* result, size_t arguments);

  void begins() override { naming_.reset(); }
  Answer calls(PyObject* callable, const Values& args, PyObject* names) override;
  Answer callsFunction(PyObject* function, const watch::Arguments& arguments) override;
  bool called(PyObject* callable, PyObject* result, bool spread) override;

 private:
  bool makesLeaf(PyObject* tensor, PyObject* flag);
  bool usedBefore(const at::Tensor& tensor) const;
  // The replay calls this method of the tensor where the program does, between the same operators.
  bool callsBetween(PyObject* method, const Values& args);
  void becomesParameter(PyObject* tensor);
  void namedTuple(PyObject* type);

  std::vector<PyObject*> histories_;
  std::unordered_set<PyObject*> leaves_;  // tensors that the call made leaves
  std::unordered_set<PyObject*> parameters_;
  std::unordered_set<PyObject*> classes_;
  std::optional<NamedClass> naming_;  // a call of collections.namedtuple
  std::unordered_map<PyObject*, NamedClass> namedClasses_;
};

}  // namespace saker::frontend
