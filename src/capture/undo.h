// What a capture changes in the program's own tensors, and how it is taken back: version counters, autograd history and
// .grad. Data is never changed, since nothing runs.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>
#include <vector>

namespace saker::tracing {

class Undo {
 public:
  // Before a real tensor is written for the first time; its version counter has been moved by `counted` already.
  void noteWrite(const at::Tensor& tensor, uint32_t counted = 0);
  // When a real leaf is met that a backward may give a gradient.
  void noteLeaf(const at::Tensor& tensor);

  struct Leaf {
    at::Tensor tensor;
    at::Tensor grad;  // as it was
  };
  const std::vector<Leaf>& leaves() const { return leaves_; }
  // How often a real tensor was written since it was met, counted once for tensors that share a version counter.
  uint32_t writesTo(const at::Tensor& tensor) const;
  void restore();

 private:
  struct Written {
    at::Tensor tensor;
    int64_t version;
    decltype(torch::autograd::AutogradMeta::grad_fn_) gradFn;  // its kind of pointer differs between versions
    uint32_t outputNumber;
    bool requiresGrad;
  };
  std::vector<Written> written_;
  std::vector<Leaf> leaves_;
  std::unordered_map<const c10::TensorImpl*, bool> seenWritten_, seenLeaf_;
};

}  // namespace saker::tracing
