// Sizes of sliding windows: what convolutions, pooling and resampling share.
#pragma once

#include "ops/infer.h"
#include "ops/shape.h"

namespace saker::ops {

// The values of a list argument, one per spatial dimension; a single one counts for all.
inline Dims perDimension(Infer& in, size_t argument, size_t count) {
  Dims out = in.ints(argument);
  if (out.size() == 1) out.resize(count, out[0]);
  if (out.size() != count) {
    refuse("argument " + std::to_string(argument) + " must have 1 or " + std::to_string(count) + " elements");
  }
  return out;
}

// A fresh tensor in a memory format.
inline void resultIn(Infer& in, IntSpan sizes, MemoryFormat format, DType dtype, Device device) {
  TensorSpec spec;
  spec.dtype = dtype;
  spec.device = device;
  spec.sizes = Dims(sizes);
  spec.strides = stridesIn(sizes, format);
  in.result(spec);
}

inline void noResult(Infer& in) { in.result(in.context().types().plain(ir::TypeKind::None)); }

}  // namespace saker::ops
