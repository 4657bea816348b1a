// Whether a call is one that the function was compiled for.
#pragma once

#include <ATen/SavedTensorHooks.h>
#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "aot/plan.h"

namespace saker::aot {

// Thrown before anything of a call was done: it is none that the function was compiled for.
struct WrongArguments : runtime::RunError {
  using runtime::RunError::RunError;
};

// Sizes, strides, dtypes and devices of primals, and guards on sizes that may change. Throws WrongArguments; gives the
// values of symbols.
sym::Assignment checkPrimals(const Plan& plan, std::span<const at::Tensor> primals);
// Arguments that share memory lie in it as they did.
void checkMembers(const Plan& plan, std::span<const at::Tensor> tensors);

// Hooks on saved tensors that are set around a call are off while one lives.
class WithoutHooks {
 public:
  WithoutHooks();
  ~WithoutHooks();
  WithoutHooks(const WithoutHooks&) = delete;
  WithoutHooks& operator=(const WithoutHooks&) = delete;

 private:
  at::impl::SavedTensorDefaultHooksTLS kept_;
};

}  // namespace saker::aot
