// Inference by running the operator's ATen meta kernel on meta tensors. Strided tensors only; their sizes may be
// symbols, of which kernels written in Python make others.
#pragma once

#include "aten/infer.h"

namespace saker::aten {

// A kernel that is missing or fails is a refusal. Throws ops::RefusalException for arguments it cannot express.
ops::Inferred inferByMetaKernel(Converter& converter, ir::Context& context, const c10::OperatorHandle& handle,
                                std::span<const c10::IValue> values, const Hooks& hooks);

}  // namespace saker::aten
