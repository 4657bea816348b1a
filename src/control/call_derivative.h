// The derivative of a call: what autograd does to the body's operators, in a body of its own. It is made once for equal
// bodies; put in the place of its calls it is what autograd would have done to each of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <vector>

#include "control/derivative.h"

namespace saker::control {

// Autograd's node of a call.
struct CallNode : torch::autograd::Node {
  using Node::Node;
  // Would eager mode's nodes of the body have saved a tensor? Known once its gradients have been asked for.
  virtual bool saves() const = 0;
};

// Gradients of the operands that are wanted; undefined ones are None. Calls are made on stand-ins alone, inside of a
// trace.
std::vector<at::Tensor> gradientsOfCall(const Bodies& bodies, const std::vector<at::Tensor>& operands,
                                        const std::vector<at::Tensor>& tangents, const std::vector<bool>& wanted,
                                        bool& saves);

// How many derivatives of bodies have been made in this process.
size_t derivativesMade();
void countDerivative();

}  // namespace saker::control
