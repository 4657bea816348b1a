#include "aot/view_node.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "aten/torch_version/autograd_node.h"

namespace saker::aot {

namespace {

class ViewBackward final : public torch::autograd::Node {
 public:
  explicit ViewBackward(aten::NodePtr made)
      : Node(torch::autograd::edge_list(made->next_edges())), made_(std::move(made)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return (*made_)(std::move(gradients));
  }
  void release_variables() override { made_->release_variables(); }
  std::string name() const override { return made_->name(); }  // as errors call it

 private:
  aten::NodePtr made_;
};

}  // namespace

const std::type_info& viewNodeType() { return typeid(ViewBackward); }

void giveOwnNode(std::span<const at::Tensor> views) {
  aten::NodePtr made, own;
  for (const at::Tensor& view : views) {
    // As it is written down: asking a view for its history may make it anew.
    torch::autograd::AutogradMeta* meta = torch::autograd::impl::get_autograd_meta(view);
    if (!meta || !meta->grad_fn_) return;
    if (!made) {
      made = meta->grad_fn_;
      own = aten::makeNode<ViewBackward>(made);
    }
    if (meta->grad_fn_ != made || meta->output_nr_ != own->num_inputs()) return;
    own->add_input_metadata(view);
  }
  for (const at::Tensor& view : views) torch::autograd::impl::get_autograd_meta(view)->grad_fn_ = own;
}

}  // namespace saker::aot
