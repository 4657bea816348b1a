#include "aot/edge_values.h"

#include <torch/csrc/autograd/variable.h>

#include "ops/control_flow.h"

namespace saker::aot {

void EdgeValues::note(const at::Tensor& tensor) {
  // As it is written down: asking a view for its history may make it anew.
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  if (!meta || !meta->grad_fn_) return;
  const tracing::TraceTensor* own = tracing::traceTensor(*tensor.unsafeGetTensorImpl());
  if (!own || own->trace().get() != &trace_ || !own->value()) return;
  noted_.insert_or_assign({meta->grad_fn_.get(), meta->output_nr_},
                          Noted{meta->grad_fn_->sequence_nr(), trace_.valueOf(tensor)});
}

ir::Value* EdgeValues::find(const torch::autograd::Edge& edge) const {
  auto known = noted_.find({edge.function.get(), edge.input_nr});
  if (known == noted_.end() || known->second.sequence != edge.function->sequence_nr()) return nullptr;
  ir::Value* value = known->second.value;
  bool stays = value->def() && value->def()->region()->owner() == nullptr && !ops::isCall(*value->def());
  return stays ? value : nullptr;
}

}  // namespace saker::aot
