// The compiled backward as a node of autograd's graph.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <vector>

#include "aot/plan.h"
#include "aot/version_checks.h"

namespace saker::aot {

// As PyTorch calls it, for programs that look.
inline constexpr const char* kBackwardName = "CompiledFunctionBackward";

class Backward final : public torch::autograd::Node {
 public:
  explicit Backward(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}

  struct Saved {
    std::vector<torch::autograd::SavedVariable> tensors;  // by saved tensor; of a primal, an empty one
    std::vector<int64_t> numbers;
    std::vector<torch::autograd::SavedVariable> primals;  // by primal, as they were before the call
    sym::Assignment symbols;
    at::Tensor generator;
    Versions versions;
    std::vector<at::Tensor> written;  // by backwardWrites of the joint graph: the caller's tensors
    bool writesDifferentiable = false;
    std::vector<std::vector<int64_t>> sparseSizes;  // by sparse gradient
  };
  void save(Saved saved) { saved_ = std::move(saved); }
  void expect(Versions versions) { saved_.versions = std::move(versions); }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& tangents) override;
  void release_variables() override;
  std::string name() const override { return kBackwardName; }

 private:
  torch::autograd::variable_list compiled(torch::autograd::variable_list tangents, const std::vector<bool>& given,
                                          const std::vector<bool>& wanted);
  torch::autograd::variable_list followed(const torch::autograd::variable_list& tangents);
  void write(const torch::autograd::variable_list& contents) const;
  void makeSparse(torch::autograd::variable_list& gradients) const;
  at::Tensor layoutOf(size_t parameter) const;
  at::Tensor asTold(size_t index, at::Tensor tangent) const;
  void free();

  std::shared_ptr<const Plan> plan_;
  Saved saved_;
};

}  // namespace saker::aot
