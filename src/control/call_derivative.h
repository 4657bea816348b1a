// The derivative of a call: what autograd does to the body's operators, in a body of its own. It is made once for equal
// bodies; put in the place of its calls it is what autograd would have done to each of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <vector>

#include "control/derivative.h"

namespace saker::control {

// What eager mode's nodes of a body would have been.
struct BodyNodes {
  // The one that gives an operand's gradient last: when it was made, and which of its gradients that is.
  struct Given {
    uint64_t node = 0;
    size_t place = 0;
  };
  bool saves = true;         // one of them saves a tensor
  std::vector<Given> given;  // by operand; of those whose gradient was not asked for it tells nothing
};

// Autograd's node of a call.
struct CallNode : torch::autograd::Node {
  using Node::Node;
  // Known once its gradients have been asked for.
  virtual const BodyNodes& body() const = 0;
};

// Gradients of the operands that are wanted; undefined ones are None. Calls are made on stand-ins alone, inside of a
// trace.
std::vector<at::Tensor> gradientsOfCall(const Bodies& bodies, const std::vector<at::Tensor>& operands,
                                        const std::vector<at::Tensor>& tangents, const std::vector<bool>& wanted,
                                        BodyNodes& nodes);

// How many derivatives of bodies have been made in this process.
size_t derivativesMade();
void countDerivative();

}  // namespace saker::control
