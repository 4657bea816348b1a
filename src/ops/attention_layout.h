// How results of attention lie in memory.
#pragma once

#include <utility>

#include "ops/shape.h"

namespace saker::ops {

// A fresh tensor of sizes (B, H, S, ...) that lies in memory as (B, S, H, ...).
inline TensorSpec headsInside(IntSpan sizes, DType dtype, Device device) {
  Dims swapped(sizes);
  std::swap(swapped[1], swapped[2]);
  TensorSpec spec;
  spec.dtype = dtype;
  spec.device = device;
  spec.sizes = Dims(sizes);
  spec.strides = ir::contiguousStrides(swapped);
  std::swap(spec.strides[1], spec.strides[2]);
  return spec;
}

}  // namespace saker::ops
