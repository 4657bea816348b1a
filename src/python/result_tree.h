// What a captured function gave: its structure, where tensors and numbers that may change stand in it, and whatever
// else is there, which every call gives as it is. A call's results are made of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/utils/pybind.h>

#include <span>
#include <vector>

#include "python/tree.h"

namespace saker::python {

class ResultTree {
 public:
  explicit ResultTree(PyObject* result);

  const std::vector<Ref>& leaves() const { return found_; }
  // A leaf that each call puts there by itself.
  void leaveOut(size_t place);
  // Tells leaves apart; what was found is let go.
  void finish();

  // Of the capture: tensors, then numbers.
  const std::vector<Ref>& tensors() const { return tensors_; }
  const std::vector<Ref>& numbers() const { return numbers_; }
  // A leaf that is neither: an object that each call makes anew and that may hold tensors. nullptr: there is none.
  const Ref& opaque() const { return opaque_; }
  // What it holds of the capture is not needed any more.
  void forget();

  bool isTensor() const { return tree_.isLeaf() && tensorPlaces_.size() == 1; }
  // Undefined tensors are None. `others`: leaves that were left out, by place.
  Ref build(std::span<const at::Tensor> tensors, std::span<const c10::IValue> numbers,
            const std::vector<std::pair<size_t, at::Tensor>>& others = {}) const;
  int traverse(const Visitor& visit) const;

 private:
  // A torch.Size in which some numbers may change: the others.
  struct Size {
    size_t place;
    std::vector<Ref> parts;  // nullptr: changes
  };

  Tree tree_;
  std::vector<Ref> found_;
  std::vector<Ref> kept_;  // by leaf; nullptr: each call has its own
  std::vector<size_t> tensorPlaces_, numberPlaces_;
  std::vector<Size> sizes_;
  std::vector<Ref> tensors_, numbers_;
  Ref opaque_;
};

void bindResultTree(py::module_& module);

}  // namespace saker::python
