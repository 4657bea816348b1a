// Which of our dtypes this torch has. New ones get the next number, so an older torch has the first of them.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include "aten/torch_version/version.h"
#include "ir/dtype.h"

namespace saker::aten {

#if SAKER_TORCH_AT_LEAST(2, 14)
// 2.14: complex numbers of bfloat16.
static_assert(static_cast<int>(ir::DType::BComplex32) == static_cast<int>(c10::ScalarType::BComplex32));
inline constexpr int kTorchDTypes = ir::kDTypes;
#else
inline constexpr int kTorchDTypes = static_cast<int>(ir::DType::BComplex32);
#endif
static_assert(kTorchDTypes == static_cast<int>(c10::ScalarType::Undefined), "torch has another number of dtypes");

// Raises for a dtype that only newer versions have: a graph that was written as text may name it.
inline void requireDType(ir::DType type) {
  if constexpr (kTorchDTypes < ir::kDTypes) {
    TORCH_CHECK_TYPE(static_cast<int>(type) < kTorchDTypes, "torch ", TORCH_VERSION, " has no dtype ", ir::name(type));
  }
}

}  // namespace saker::aten
