// A function of the plain tensors inside of its arguments, for arguments of one structure: calls the function that is
// compiled on subclasses made of these tensors, and takes its results apart.
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <map>
#include <memory>
#include <vector>

#include "host/subclass_effects.h"
#include "host/subclass_nodes.h"
#include "python/aot_variants.h"

namespace saker::python {

// A tensor, taken apart where it is a subclass.
struct TakenTensor {
  at::Tensor tensor;
  FormPtr form;                   // nullptr: a plain one
  std::vector<at::Tensor> inner;  // of a subclass
};

// What a capture has found out about the results.
struct ApartResults {
  explicit ApartResults(PyObject* result) : tree(result) {}

  ResultTree tree;
  ArgumentEffects effects;
  std::vector<FormPtr> forms;     // of the results that are tensors, then of what the effects need
  std::vector<int64_t> versions;  // of the same
  std::vector<at::Tensor> wrap(std::vector<at::Tensor> plain, const std::shared_ptr<GivenTasks>& given) const;
};

class TakenApart {
 public:
  TakenApart(py::object function, const CallArguments& call, const std::vector<TakenTensor>& tensors);

  // Plain arguments may get gradients that are subclasses. Where they may, the first capture only finds out which do...
  bool onlyNotes() const { return onlyNotes_; }
  // ...and this is for the captures behind it.
  std::shared_ptr<TakenApart> withGradients() const;

  // The plain tensors of such arguments, tied to them.
  std::vector<at::Tensor> unwrap(const std::vector<TakenTensor>& tensors,
                                 const std::shared_ptr<GivenTasks>& given) const;

  // Where the function writes to no argument, a write to a subclass after the call is noticed by a backward that reads
  // what is inside.
  void countTogether(const std::vector<TakenTensor>& tensors, const std::vector<at::Tensor>& plain) const;

  // Called by a capture with stand-ins of the plain tensors: gives numbers that may change, then plain tensors.
  py::list record(const std::vector<at::Tensor>& plain);
  // Called for a backward that autograd follows: gives plain tensors.
  py::list again(const std::vector<at::Tensor>& plain) const;

  // Of the last capture.
  const std::shared_ptr<const ApartResults>& recorded() const { return recorded_; }

  int traverse(const Visitor& visit) const;

 private:
  // One call of the function.
  struct Called {
    std::shared_ptr<ApartResults> results;
    std::vector<at::Tensor> leaves;  // of its results; undefined: one that is no tensor
    std::vector<at::Tensor> needed;  // for its effects on arguments
    std::vector<at::Tensor> made;    // of its leaves: neither arguments nor views that are made again
  };
  using Gradients = std::map<size_t, FormPtr>;  // by plain tensor, where its gradient is a subclass

  // How many plain tensors there are for an argument.
  size_t plainOf(size_t place) const;
  Called call(const std::vector<at::Tensor>& plain) const;
  std::vector<at::Tensor> wrap(const std::vector<at::Tensor>& plain) const;
  at::Tensor wrapPlain(size_t place, const std::vector<at::Tensor>& parts) const;
  void checkGradients(const std::vector<at::Tensor>& results) const;

  py::object function_;
  Tree tree_;                                // of all arguments
  std::vector<Ref> leaves_;                  // nullptr for tensors
  std::vector<size_t> places_;               // of tensors among the leaves
  std::vector<FormPtr> forms_;               // by tensor
  std::vector<size_t> first_;                // by tensor: the first one that it is
  std::vector<GradientForm> gradientForms_;  // by tensor
  std::vector<bool> unwritable_;             // by tensor: autograd may refuse a write
  std::vector<bool> gradLeaf_;               // by tensor: a leaf that requires grad
  bool onlyNotes_ = false;
  Gradients gradients_;
  std::shared_ptr<Gradients> noted_ = std::make_shared<Gradients>();
  std::shared_ptr<JoinedTasks> joined_ = std::make_shared<JoinedTasks>();
  std::shared_ptr<const ApartResults> recorded_;
};

// The first of `tensors` that each one is.
std::vector<size_t> firstOfEach(const std::vector<at::Tensor>& tensors);

}  // namespace saker::python
