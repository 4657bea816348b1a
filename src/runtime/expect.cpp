// What a program has found in data when it was recorded, as an operator that fails where it would find something else.
#include <ATen/ops/is_nonzero.h>
#include <torch/library.h>

#include <stdexcept>

namespace saker::runtime {

namespace {

void expect(const at::Tensor& tensor, bool truth) {
  if (at::is_nonzero(tensor) != truth) throw std::runtime_error("a check of data has another result than was recorded");
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(saker, library) { library.def("expect(Tensor self, bool truth) -> ()"); }
TORCH_LIBRARY_IMPL(saker, CompositeExplicitAutograd, library) { library.impl("expect", &expect); }

}  // namespace saker::runtime
