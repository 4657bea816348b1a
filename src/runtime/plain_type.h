// Tensors that kernels may be entered directly for.
#pragma once

#include "ir/type.h"

namespace saker::runtime {

// Does a new tensor of this type have its numbers as they are, from the beginning of its memory?
inline bool isPlainType(const ir::TensorType& type) {
  return type.layout == ir::Layout::Strided && !type.flags.conj && !type.flags.neg && type.offset.isConst() &&
         type.offset.constant() == 0;
}

}  // namespace saker::runtime
