// The tensors that the caller of a function has, in the capture of the function: arguments, bases that arguments are
// views of, tensors that it closes over; and what stands for each of them.
#pragma once

#include <torch/csrc/autograd/edge.h>

#include <unordered_map>
#include <vector>

#include "aot/joint.h"
#include "aot/sharing.h"

namespace saker::aot {

// Where the gradient of a tensor arrives; none where it has no gradient.
torch::autograd::Edge edgeOf(const at::Tensor& tensor);

// Has somebody registered a hook on it, or asked it to keep its gradient?
bool hasHooks(const at::Tensor& tensor);

class Callers {
 public:
  Callers(const tracing::Host& host, std::span<const at::Tensor> arguments, const JointOptions& options);

  // Arguments and bases, with what they share.
  void makeStandIns(Joint& joint);
  // After the call: what the function has met besides.
  void addClosed(Joint& joint);

  const at::Tensor& real(size_t caller) const { return caller < given.size() ? given[caller] : captured_[caller]; }
  bool isClosed(size_t caller) const { return caller >= captured_.size(); }
  bool isCaller(const at::Tensor& tensor) const;
  // The first argument that this argument is.
  size_t firstOf(size_t argument) const;
  bool sharesMemory(size_t caller) const;
  // Has the call written to one of them?
  bool anythingWritten();

  const std::vector<at::Tensor> given;  // the arguments
  const SharedArguments shared;

 private:
  std::vector<size_t> memories_;
  std::vector<at::Tensor> captured_;  // arguments, and bases in the place of their views

 public:
  tracing::Capture capture;
  // By tensor of the caller, before the call: what stands for it, its edge, value, storage.
  std::vector<at::Tensor> standIns;
  std::vector<torch::autograd::Edge> edges;
  std::vector<ir::Value*> values;
  std::vector<c10::Storage> before;
  std::vector<bool> requiredGrad;

 private:
  std::vector<at::Tensor> toCapture();
  void makeMember(size_t argument, size_t base);
  void noteMembers(Joint& joint) const;
  void shareVersions();
  void shareVersion(size_t caller, const std::vector<size_t>& others);

  std::unordered_map<const c10::TensorImpl*, size_t> first_;  // by tensor: the first argument that it is
};

}  // namespace saker::aot
