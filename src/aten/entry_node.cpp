#include "aten/entry_node.h"

#include <torch/csrc/autograd/variable.h>

namespace saker::aten {

torch::autograd::variable_list EntryNode::apply(torch::autograd::variable_list&& gradients) {
  return std::move(gradients);
}

uint32_t EntryNode::add(const NodePtr& self, const at::Tensor& result) {
  torch::autograd::impl::set_gradient_edge(result, {self, self->add_input_metadata(result)});
  return static_cast<EntryNode&>(*self).target()->add_input_metadata(result);
}

}  // namespace saker::aten
