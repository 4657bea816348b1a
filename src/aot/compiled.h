// A function compiled ahead of time: its forward and backward graphs run inside of PyTorch's autograd, so that results,
// gradients, writes and aliases are those of eager mode.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "aot/joint.h"
#include "autograd/partition.h"

namespace saker::aot {

// Runs a graph: tensors for its parameters, tensors back. What a back end makes of it, or the interpreter.
using Executable = std::function<std::vector<at::Tensor>(std::vector<at::Tensor> inputs)>;

struct Plan {
  Joint joint;
  autograd::Cut cut;  // in training
  Executable forward;
  Executable backward;
};

class CompiledFunction {
 public:
  // Cuts the joint graph where there is a backward; the interpreter runs both until setExecutables().
  CompiledFunction(Joint joint, const autograd::PartitionOptions& options);

  std::vector<at::Tensor> operator()(std::span<const at::Tensor> arguments) const;

  bool training() const { return plan_->joint.training; }
  const ir::Graph& forwardGraph() const;
  const ir::Graph& backwardGraph() const { return *plan_->cut.backward; }
  const std::vector<c10::IValue>& objects() const { return plan_->joint.program->objects; }
  void setExecutables(Executable forward, Executable backward);

 private:
  std::shared_ptr<Plan> plan_;
};

}  // namespace saker::aot
