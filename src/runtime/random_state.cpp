// The state of the default generator as operators, so that a graph can save and set it between operators that draw.
#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>

namespace saker::runtime {

namespace {

at::Tensor state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void setState(const at::Tensor& given) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard lock(generator.mutex());
  generator.set_state(given);
}

void seed(int64_t number) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  std::lock_guard lock(generator.mutex());
  generator.set_current_seed(static_cast<uint64_t>(number));
}

}  // namespace

TORCH_LIBRARY(saker, library) {
  library.def("rng_state() -> Tensor");
  library.def("set_rng_state(Tensor state) -> ()");
  library.def("manual_seed(int seed) -> ()");
}

TORCH_LIBRARY_IMPL(saker, CompositeExplicitAutograd, library) {
  library.impl("rng_state", &state);
  library.impl("set_rng_state", &setState);
  library.impl("manual_seed", &seed);
}

}  // namespace saker::runtime
