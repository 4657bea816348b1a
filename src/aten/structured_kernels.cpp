// PyTorch's structured kernels by operator: which of them can be entered past the dispatcher.
#include <ATen/ops/_log_softmax_backward_data_native.h>
#include <ATen/ops/_log_softmax_native.h>
#include <ATen/ops/_softmax_backward_data_native.h>
#include <ATen/ops/_softmax_native.h>
#include <ATen/ops/acos_native.h>
#include <ATen/ops/acosh_native.h>
#include <ATen/ops/add_native.h>
#include <ATen/ops/addcdiv_native.h>
#include <ATen/ops/addcmul_native.h>
#include <ATen/ops/addmm_native.h>
#include <ATen/ops/addmv_native.h>
#include <ATen/ops/amax_native.h>
#include <ATen/ops/amin_native.h>
#include <ATen/ops/asin_native.h>
#include <ATen/ops/asinh_native.h>
#include <ATen/ops/atan2_native.h>
#include <ATen/ops/atan_native.h>
#include <ATen/ops/atanh_native.h>
#include <ATen/ops/bitwise_and_native.h>
#include <ATen/ops/bitwise_not_native.h>
#include <ATen/ops/bitwise_or_native.h>
#include <ATen/ops/bitwise_xor_native.h>
#include <ATen/ops/bmm_native.h>
#include <ATen/ops/ceil_native.h>
#include <ATen/ops/clamp_max_native.h>
#include <ATen/ops/clamp_min_native.h>
#include <ATen/ops/clamp_native.h>
#include <ATen/ops/copysign_native.h>
#include <ATen/ops/cos_native.h>
#include <ATen/ops/cosh_native.h>
#include <ATen/ops/digamma_native.h>
#include <ATen/ops/div_native.h>
#include <ATen/ops/elu_backward_native.h>
#include <ATen/ops/elu_native.h>
#include <ATen/ops/eq_native.h>
#include <ATen/ops/erf_native.h>
#include <ATen/ops/erfc_native.h>
#include <ATen/ops/erfinv_native.h>
#include <ATen/ops/exp2_native.h>
#include <ATen/ops/exp_native.h>
#include <ATen/ops/expm1_native.h>
#include <ATen/ops/floor_native.h>
#include <ATen/ops/fmax_native.h>
#include <ATen/ops/fmin_native.h>
#include <ATen/ops/fmod_native.h>
#include <ATen/ops/frac_native.h>
#include <ATen/ops/gather_native.h>
#include <ATen/ops/ge_native.h>
#include <ATen/ops/gelu_backward_native.h>
#include <ATen/ops/gelu_native.h>
#include <ATen/ops/gt_native.h>
#include <ATen/ops/hardshrink_native.h>
#include <ATen/ops/hardsigmoid_backward_native.h>
#include <ATen/ops/hardsigmoid_native.h>
#include <ATen/ops/hypot_native.h>
#include <ATen/ops/i0_native.h>
#include <ATen/ops/le_native.h>
#include <ATen/ops/leaky_relu_backward_native.h>
#include <ATen/ops/leaky_relu_native.h>
#include <ATen/ops/lerp_native.h>
#include <ATen/ops/lgamma_native.h>
#include <ATen/ops/log10_native.h>
#include <ATen/ops/log1p_native.h>
#include <ATen/ops/log2_native.h>
#include <ATen/ops/log_native.h>
#include <ATen/ops/logaddexp2_native.h>
#include <ATen/ops/logaddexp_native.h>
#include <ATen/ops/lt_native.h>
#include <ATen/ops/maximum_native.h>
#include <ATen/ops/mean_native.h>
#include <ATen/ops/minimum_native.h>
#include <ATen/ops/mish_native.h>
#include <ATen/ops/mm_native.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/ne_native.h>
#include <ATen/ops/neg_native.h>
#include <ATen/ops/pow_native.h>
#include <ATen/ops/reciprocal_native.h>
#include <ATen/ops/remainder_native.h>
#include <ATen/ops/round_native.h>
#include <ATen/ops/rsqrt_native.h>
#include <ATen/ops/sgn_native.h>
#include <ATen/ops/sigmoid_backward_native.h>
#include <ATen/ops/sigmoid_native.h>
#include <ATen/ops/sign_native.h>
#include <ATen/ops/signbit_native.h>
#include <ATen/ops/silu_backward_native.h>
#include <ATen/ops/silu_native.h>
#include <ATen/ops/sin_native.h>
#include <ATen/ops/sinc_native.h>
#include <ATen/ops/sinh_native.h>
#include <ATen/ops/softplus_backward_native.h>
#include <ATen/ops/softplus_native.h>
#include <ATen/ops/softshrink_native.h>
#include <ATen/ops/sqrt_native.h>
#include <ATen/ops/sub_native.h>
#include <ATen/ops/sum_native.h>
#include <ATen/ops/tan_native.h>
#include <ATen/ops/tanh_backward_native.h>
#include <ATen/ops/tanh_native.h>
#include <ATen/ops/threshold_backward_native.h>
#include <ATen/ops/threshold_native.h>
#include <ATen/ops/tril_native.h>
#include <ATen/ops/triu_native.h>
#include <ATen/ops/trunc_native.h>
#include <ATen/ops/xlogy_native.h>

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "aten/kept_call.h"
#include "aten/product_call.h"
#include "aten/special_kernels.h"
#include "aten/structured_call.h"
#include "aten/torch_version/dispatch_table.h"

namespace saker::aten {

namespace {

const std::unordered_map<std::string, KeptKernel::Make>& makers() {
  static const std::unordered_map<std::string, KeptKernel::Make> all = {
#define SAKER_STRUCTURED(name, kernel) {"aten::" name, &prepareStructured<at::native::kernel>},
#include "aten/structured_rows.h"
#undef SAKER_STRUCTURED
      {"aten::addmm", &prepareAddmm},
  };
  return all;
}

template <KeptKernel::Make usual>
std::unique_ptr<KeptCall> prepareFastest(const KeptArguments& arguments) {
  std::unique_ptr<KeptCall> made = prepareProduct(arguments);
  return made ? std::move(made) : usual(arguments);
}

const std::unordered_map<std::string, KeptKernel::Make>& fastestMakers() {
  static const std::unordered_map<std::string, KeptKernel::Make> all = {
      {"aten::mm", &prepareFastest<&prepareStructured<at::native::structured_mm_out_cpu>>},
      {"aten::bmm", &prepareFastest<&prepareStructured<at::native::structured_bmm_out_cpu>>},
      {"aten::addmm", &prepareFastest<&prepareAddmm>},
      {"aten::baddbmm", &prepareProduct},
  };
  return all;
}

KeptKernel::Make makerOf(const std::string& operation, KeptKernel::Products products) {
  if (products == KeptKernel::Products::Fastest && multipliesFaster()) {
    auto fastest = fastestMakers().find(operation);
    if (fastest != fastestMakers().end()) return fastest->second;
  }
  auto maker = makers().find(operation);
  return maker == makers().end() ? nullptr : maker->second;
}

// Is the operator's kernel the one that PyTorch registers, and not one of a program's?
bool isPyTorchs(const c10::OperatorHandle& handle) {
  std::string table = "\n" + handle.dumpComputedTable();
  size_t line = table.find("\nCPU: ");
  return line != std::string::npos &&
         table.substr(line, table.find('\n', line + 1) - line).find("/RegisterCPU") != std::string::npos;
}

}  // namespace

KeptKernel::KeptKernel(const c10::OperatorHandle& handle, Make make)
    : make_(make), current_(cpuKernelOf(handle)), found_(current_) {}

bool KeptKernel::isCurrent() const { return current_._equalsBoxedAndUnboxed(found_); }

const KeptKernel* KeptKernel::find(const c10::OperatorHandle& handle, Products products) {
  const c10::OperatorName& name = handle.operator_name();
  std::string qualified = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
  Make maker = makerOf(qualified, products);
  if (!maker) return nullptr;
  static std::mutex lock;
  static auto& known = *new std::map<std::pair<std::string, Products>, KeptKernel>;
  std::lock_guard held(lock);
  auto found = known.find({qualified, products});
  if (found == known.end()) {
    if (!isPyTorchs(handle)) return nullptr;
    found = known.emplace(std::pair(qualified, products), KeptKernel(handle, maker)).first;
  }
  return &found->second;
}

}  // namespace saker::aten
