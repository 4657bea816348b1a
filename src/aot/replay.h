// Redoes on the caller's tensors what the function did to them beside computing: views and new geometries, by the
// operators that it used, so that autograd knows the results as the same views.
#pragma once

#include "aot/joint.h"
#include "aten/call_node.h"

namespace saker::aot {

class Replay {
 public:
  Replay(const std::vector<Step>& steps, const std::vector<c10::IValue>& objects);
  // `tensors` by number.
  void run(std::vector<at::Tensor>& tensors, const sym::Assignment& symbols) const;
  bool empty() const { return calls_.empty(); }

 private:
  struct Call {
    Step step;
    std::optional<c10::OperatorHandle> handle;
    bool constant = true;
    std::vector<c10::IValue> arguments;  // where they are constant
  };
  void call(const Call& call, std::vector<at::Tensor>& tensors, const sym::Assignment& symbols) const;

  std::vector<Call> calls_;
  const std::vector<c10::IValue>& objects_;
};

}  // namespace saker::aot
