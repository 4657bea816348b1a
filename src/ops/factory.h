// What operators that make tensors from nothing share.
#pragma once

#include "ops/infer.h"
#include "ops/shape.h"

namespace saker::ops {

// Where and of what a fresh tensor is made: from the arguments dtype, layout, device, pin_memory at `first`, ... of an
// operator; in an out= form from the tensor to be filled (the last argument).
struct Options {
  DType dtype;
  Device device;
};
Options readOptions(const Infer& in, size_t first, DType dtype, Device device);
// Defaults: the ambient dtype and device.
Options readOptions(const Infer& in, size_t first);
// Defaults: those of `like`, also in an out= form.
Options readOptions(const Infer& in, size_t first, const TensorType& like);
inline bool isOut(const Infer& in) { return in.op().variant == Variant::Out; }

// The dtype that a number alone gives a tensor: full's and arange's rule.
DType dtypeOf(const Infer& in, Scalar::Kind kind);

// A fresh row-major tensor; refuses negative sizes.
void fresh(Infer& in, IntSpan sizes, Options options);
// A fresh tensor of `like`'s sizes in a format; the default keeps like's memory order.
void freshLike(Infer& in, const TensorType& like, Options options, std::optional<MemoryFormat> format);

}  // namespace saker::ops
