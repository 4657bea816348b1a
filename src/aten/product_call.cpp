#include "aten/product_call.h"

#include <ATen/Context.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include <cstring>

#include "aten/structured_call.h"

// PyTorch calls it for half precision. It is in no header of a package; where a library has no such function, it is null.
namespace at::native {
__attribute__((weak)) void mkldnn_matmul(const Tensor& left, const Tensor& right, const Tensor& result, float beta,
                                         float alpha);
}  // namespace at::native

namespace saker::aten {

namespace {

// Multiplications from which on it pays: a call costs 10 us more than one of MKL's.
constexpr int64_t kWorthIt = int64_t{1} << 21;

// Rows or columns one behind the other. Others would be copied.
bool isPacked(const at::Tensor& matrices) {
  return matrices.is_contiguous() || matrices.transpose(-1, -2).is_contiguous();
}

class ProductCall final : public KeptCall {
 public:
  static std::unique_ptr<KeptCall> prepare(const KeptArguments& arguments) {
    std::unique_ptr<ProductCall> made(new ProductCall(arguments));
    return made->fits() ? std::move(made) : nullptr;
  }

 private:
  explicit ProductCall(const KeptArguments& arguments)
      : adds_(arguments.values.size() == 5),
        added_(arguments.values[0], arguments.tensors[0]),
        left_(arguments.values[adds_], arguments.tensors[adds_]),
        right_(arguments.values[adds_ + 1u], arguments.tensors[adds_ + 1u]),
        result_(arguments.result.at) {
    factors_ = adds_ && !(isOne(arguments.values[3]) && isOne(arguments.values[4]));
    if (fits()) keep(arguments);
  }

  static bool isOne(const c10::IValue& factor) {
    at::Scalar number = factor.toScalar();
    return !number.isComplex() && number.toDouble() == 1;
  }

  bool fits() const {
    const at::Tensor &left = left_.get(), &right = right_.get(), &added = added_.get();
    int64_t rank = result_->dim();
    if (factors_ || (rank != 2 && rank != 3) || left.dim() != rank || right.dim() != rank) return false;
    for (const at::Tensor* each : {&left, &right, &added, result_}) {
      if (each->scalar_type() != at::kFloat) return false;
    }
    // Whatever does not fit is eager mode's to refuse.
    bool sizes = left.size(-1) == right.size(-2) && result_->size(-2) == left.size(-2) &&
                 result_->size(-1) == right.size(-1);
    if (rank == 3) sizes = sizes && left.size(0) == right.size(0) && result_->size(0) == left.size(0);
    if (!sizes || result_->numel() * left.size(-1) < kWorthIt) return false;
    return result_->is_contiguous() && isPacked(left) && isPacked(right) && (!adds_ || mayBeAdded(added));
  }

  // A row for all rows, or what has the sizes of the result.
  bool mayBeAdded(const at::Tensor& added) const {
    return added.is_contiguous() && ((added.dim() == 1 && added.size(0) == result_->size(-1)) ||
                                     added.sizes() == result_->sizes());
  }

  void compute() override {
    if (!at::globalContext().userEnabledMkldnn()) return asEager();
    if (adds_) {
      const at::Tensor& added = added_.get();
      const size_t row = added.nbytes(), all = result_->nbytes();
      char* to = static_cast<char*>(result_->mutable_data_ptr());
      for (size_t at = 0; at < all; at += row) std::memcpy(to + at, added.const_data_ptr(), row);
    }
    at::native::mkldnn_matmul(left_.get(), right_.get(), *result_, adds_ ? 1.0F : 0.0F, 1.0F);
  }

  void asEager() {
    at::Tensor result = *result_;
    const at::Tensor &left = left_.get(), &right = right_.get();
    bool one = result.dim() == 2;
    if (adds_) {
      one ? at::addmm_out(result, added_.get(), left, right) : at::baddbmm_out(result, added_.get(), left, right);
    } else {
      one ? at::mm_out(result, left, right) : at::bmm_out(result, left, right);
    }
  }

  bool adds_;
  bool factors_ = false;
  KeptArgument<const at::Tensor&> added_, left_, right_;  // the first is the left one where nothing is added
  const at::Tensor* result_;
};

}  // namespace

bool multipliesFaster() {
#if defined(__x86_64__)
  static const bool kFaster = at::hasMKL() && at::globalContext().hasMKLDNN() && at::native::mkldnn_matmul &&
                              !__builtin_cpu_is("intel") && __builtin_cpu_supports("avx512f") &&
                              __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                              __builtin_cpu_supports("avx512dq");
  return kFaster;
#else
  return false;
#endif
}

std::unique_ptr<KeptCall> prepareProduct(const KeptArguments& arguments) { return ProductCall::prepare(arguments); }

}  // namespace saker::aten
