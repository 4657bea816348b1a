// What a capture changes in the program's own tensors, and how it is taken back: version counters, autograd history and
// .grad. Data is never changed, since nothing runs.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <unordered_map>
#include <vector>

namespace saker::tracing {

class Undo {
 public:
  // Before a real tensor is written for the first time; its version counter has been moved by `counted` already.
  void noteWrite(const at::Tensor& tensor, uint32_t counted = 0);
  // When a leaf is met that a backward may give a gradient, or whose .grad the program asks for.
  void noteLeaf(const at::Tensor& tensor);
  // Before the program sets .grad of a tensor itself.
  void noteGradientSet(const at::Tensor& tensor);
  // The program is said to clear .grad of this tensor before it uses it. Where there is none, one stands in for it.
  void expectCleared(const at::Tensor& tensor);

  struct Leaf {
    at::Tensor tensor;
    at::Tensor grad;           // as it was
    at::Tensor found;          // as the program finds it: `grad`, or what stands for one
    bool set = false;          // by the program itself
    bool setFirst = false;     // before anything else was done to it: what was there does not matter
    bool saidCleared = false;  // by the caller
  };
  const std::vector<Leaf>& leaves() const { return leaves_; }
  // How often a real tensor was written since it was met, counted once for tensors that share a version counter.
  uint32_t writesTo(const at::Tensor& tensor) const;
  void restore();
  // Takes over what a body has noted, but for writes to tensors that are gone with the recording around it.
  void absorb(Undo& inner, const std::function<bool(const at::Tensor& written)>& isGone);
  // Forgets the leaves behind the first ones.
  void forgetLeaves(size_t first);

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
  Leaf& leafOf(const at::Tensor& tensor);

  std::unordered_map<const c10::TensorImpl*, bool> seenWritten_;
  std::unordered_map<const c10::TensorImpl*, size_t> seenLeaf_;  // where it is among the leaves
};

}  // namespace saker::tracing
