#include "aten/special_kernels.h"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm_native.h>

#include <cstring>

#include "aten/structured_call.h"

namespace saker::aten {

namespace {

// PyTorch's own implementation finds the summand in the result, as addmm_ does.
class AddmmCall final : public KeptCall, private WithToldOutputs<at::native::structured_addmm_out_cpu> {
 public:
  static std::unique_ptr<KeptCall> prepare(const KeptArguments& arguments) {
    std::unique_ptr<AddmmCall> made(new AddmmCall(arguments));
    return made->fits_ ? std::move(made) : nullptr;
  }

 private:
  explicit AddmmCall(const KeptArguments& arguments)
      : added_(arguments.values[0], arguments.tensors[0]),
        left_(arguments.values[1], arguments.tensors[1]),
        right_(arguments.values[2], arguments.tensors[2]),
        beta_(arguments.values[3].toScalar()),
        alpha_(arguments.values[4].toScalar()),
        result_(arguments.result.at) {
    meta(added_.get(), left_.get(), right_.get(), beta_, alpha_);
    // What is larger is copied by several threads.
    const at::Tensor& added = added_.get();
    fits_ = fits_ && added.dim() > 0 && result_->is_contiguous() && result_->numel() > 0 && left_.get().size(1) > 0 &&
            result_->numel() < at::internal::GRAIN_SIZE && added.is_contiguous() && added.dtype() == result_->dtype() &&
            added.size(-1) == result_->size(1) && (added.dim() == 1 || added.sizes() == result_->sizes()) &&
            beta_.toComplexDouble() != 0.0;
    if (fits_) keep(arguments);
  }

  void compute() override {
    const at::Tensor& added = added_.get();
    const size_t row = added.nbytes(), all = result_->nbytes();
    const void* from = added.const_data_ptr();
    char* to = static_cast<char*>(result_->mutable_data_ptr());
    for (size_t at = 0; at < all; at += row) std::memcpy(to + at, from, row);
    impl(*result_, left_.get(), right_.get(), beta_, alpha_, *result_);
  }

  const at::Tensor& maybe_get_output(int64_t) override { return *result_; }
  void told(int64_t, c10::IntArrayRef sizes, c10::IntArrayRef, c10::TensorOptions options, bool) override {
    fits_ = result_->sizes() == sizes && result_->dtype() == options.dtype();
  }

  KeptArgument<const at::Tensor&> added_, left_, right_;
  at::Scalar beta_, alpha_;
  const at::Tensor* result_;
  bool fits_ = false;
};

}  // namespace

std::unique_ptr<KeptCall> prepareAddmm(const KeptArguments& arguments) {
  std::unique_ptr<KeptCall> made = AddmmCall::prepare(arguments);
  return made ? std::move(made) : prepareStructured<at::native::structured_addmm_out_cpu>(arguments);
}

}  // namespace saker::aten
