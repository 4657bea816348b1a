#include "control/saved_sizes.h"

#include <torch/csrc/autograd/generated/Functions.h>

namespace saker::control {

at::Tensor savedForSizes(torch::autograd::Node& node) {
  auto* gather = dynamic_cast<torch::autograd::generated::GatherBackward0*>(&node);
  return gather ? gather->self_.unpack() : at::Tensor();
}

}  // namespace saker::control
