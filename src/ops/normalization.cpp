#include "ops/normalization.h"

#include "ops/accept.h"

namespace saker::ops {

namespace {

bool isHalf(DType dtype) { return dtype == DType::Float16 || dtype == DType::BFloat16; }

}  // namespace

DType statisticsDType(const TensorType& input, std::initializer_list<const TensorType*> parameters) {
  if (!accepts(kFloats, input.dtype)) refuse("a normalisation needs a floating point input");
  if (input.device.type != DeviceType::CPU) return isHalf(input.dtype) ? DType::Float32 : input.dtype;
  // The first parameter decides which of the two it is.
  DType expected = input.dtype;
  bool first = true;
  for (const TensorType* parameter : parameters) {
    if (!parameter) continue;
    if (first && parameter->dtype != input.dtype) {
      if (!isHalf(input.dtype)) refuse("a normalisation of mixed dtypes needs a half input");
      expected = DType::Float32;
    }
    first = false;
    if (parameter->dtype != expected) refuse("a parameter of a normalisation has another dtype than expected");
  }
  return expected;
}

bool wanted(const Infer& in, size_t maskArgument, size_t i) {
  bool given = in.given(maskArgument);
  if (given && !in.arg(maskArgument).isList()) unsupported("a mask of gradients is not known");
  std::span<const Arg> mask = given ? in.arg(maskArgument).toList() : std::span<const Arg>();
  if (i >= mask.size()) refuse("a mask of gradients is too short");
  if (mask[i].kind() != Arg::Kind::Bool) unsupported("a mask of gradients is not known");
  return mask[i].toBool();
}

}  // namespace saker::ops
