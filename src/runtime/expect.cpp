// What a program has found in data when it was recorded, as an operator that fails where it would find something else;
// and that a number which Python computes has a value here: where it has none, the argument fails.
#include <ATen/ops/is_nonzero.h>
#include <torch/library.h>

#include <stdexcept>

namespace saker::runtime {

namespace {

void expect(const at::Tensor& tensor, bool truth) {
  if (at::is_nonzero(tensor) != truth) throw std::runtime_error("a check of data has another result than was recorded");
}

void expectNumber(double) {}

}  // namespace

TORCH_LIBRARY_FRAGMENT(saker, library) {
  library.def("expect(Tensor self, bool truth) -> ()");
  library.def("expect.number(float number) -> ()");
}
TORCH_LIBRARY_IMPL(saker, CompositeExplicitAutograd, library) {
  library.impl("expect", &expect);
  library.impl("expect.number", &expectNumber);
}

}  // namespace saker::runtime
