// What a capture changes in the program's own tensors, and how it is taken back: version counters, autograd history and
// .grad. Data is never changed, since nothing runs.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <unordered_map>
#include <vector>

namespace saker::tracing {

// How far one write moves a version counter: before it is noted, and afterwards.
struct VersionMoves {
  uint32_t before = 0, after = 1;
};

class Undo {
 public:
  // Other threads may move the version counters as well: only what operators do to them counts.
  void countByOperators() { byOperators_ = true; }
  // And may look at them: each write is taken back when it is noted, before autograd counts it. Whatever is saved for a
  // backward seems not to be written then.
  void takeBackAtOnce() { atOnce_ = byOperators_; }
  void countLike(const Undo& other) { byOperators_ = other.byOperators_, atOnce_ = other.atOnce_; }
  void noteWrite(const at::Tensor& tensor, VersionMoves moves);
  // The operator failed: one write that was noted does not move the counter.
  void neverCounted(const at::Tensor& tensor);
  // When a tensor of the program's is met.
  void noteView(const at::Tensor& tensor);
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
  // How often a real tensor was written here since it was met, counted once for tensors that share a version counter.
  uint32_t writesTo(const at::Tensor& tensor) const;
  // Has a write become part of the history of a tensor of the program's, or of one of these, which stand for such?
  bool changesHistories(const std::vector<at::Tensor>& standIns) const;
  void restore();
  // Takes over what a body has noted, but for writes to tensors that are gone with the recording around it.
  void absorb(Undo& inner, const std::function<bool(const at::Tensor& written)>& isGone);
  // Forgets the leaves behind the first ones.
  void forgetLeaves(size_t first);

 private:
  struct Written {
    at::Tensor tensor;
    int64_t version;
    uint32_t writes;                                           // of operators
    decltype(torch::autograd::AutogradMeta::grad_fn_) gradFn;  // its kind of pointer differs between versions
    uint32_t outputNumber;
    bool requiresGrad;
    uint32_t viewVersion;  // of a view: the version that its history is for
  };
  bool byOperators_ = false, atOnce_ = false;
  std::vector<Written> written_;
  std::vector<Leaf> leaves_;
  std::vector<at::Tensor> views_;
  Leaf& leafOf(const at::Tensor& tensor);
  // Its history and version before a write that has moved its counter so far already.
  Written asItWas(const at::Tensor& tensor, uint32_t moved) const;
  void reset();

  static bool isReal(const at::Tensor& tensor);
  // Of a counter, by what is written here.
  uint32_t movesOf(const void* counter, const at::Tensor& tensor) const;

  std::unordered_map<const c10::TensorImpl*, size_t> seenWritten_;  // where it is among the written
  std::unordered_map<const c10::TensorImpl*, size_t> seenLeaf_;     // where it is among the leaves
};

}  // namespace saker::tracing
