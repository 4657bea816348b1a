// Fake quantisation: rounding to a grid in floating point, with the mask of what was inside it.
#include "ops/accept.h"
#include "ops/families.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

void denseLike(Infer& in, const TensorType& like, DType dtype) {
  TensorSpec spec = in.viewOf(like);
  spec.offset = 0;
  spec.dtype = dtype;
  spec.strides = denseStridesLike(like);
  in.result(spec);
}

void requireRange(Infer& in, size_t low) {
  if (in.integer(low) > in.integer(low + 1)) refuse("quant_min must not be greater than quant_max");
}

void requireChannels(const TensorType& x, const TensorType& scale, const TensorType& zero, Int axis) {
  if (scale.rank != 1 || zero.rank != 1) refuse("scale and zero point must be vectors");
  if (scale.size(0) != zero.size(0)) refuse("scale and zero point differ in length");
  int64_t at = axis.guard();
  if (at < 0 || at > static_cast<int64_t>(x.rank) - 1) refuse("the axis is outside the tensor");
  if (scale.size(0) != x.size(static_cast<size_t>(at))) refuse("scale does not fit the axis");
}

// self, scale, zero_point, quant_min, quant_max
void perTensor(Infer& in) {
  const TensorType& x = in.tensor(0);
  require(in, kFloats, x.dtype);
  requireRange(in, 3);
  Int zero = in.integer(2);
  if (zero < in.integer(3) || zero > in.integer(4)) refuse("the zero point is outside the range");
  denseLike(in, x, x.dtype);
  denseLike(in, x, DType::Bool);
}

// self, scale, zero_point, fake_quant_enabled, quant_min, quant_max
void perTensorQparams(Infer& in) {
  const TensorType& x = in.tensor(0);
  require(in, kFloats, x.dtype);
  requireRange(in, 4);
  denseLike(in, x, x.dtype);
  denseLike(in, x, DType::Bool);
}

// self, scale, zero_point, axis, quant_min, quant_max
void perChannel(Infer& in) {
  const TensorType &x = in.tensor(0), &scale = in.tensor(1), &zero = in.tensor(2);
  require(in, kFloats, x.dtype);
  if (scale.dtype != DType::Float32 && scale.dtype != DType::BFloat16) refuse("a scale must be f32 or bf16");
  if (zero.dtype != DType::Int32 && zero.dtype != DType::Float32 && zero.dtype != DType::Float16) {
    refuse("a zero point must be i32, f32 or f16");
  }
  requireChannels(x, scale, zero, in.integer(3));
  if (zero.size(0) == Int(0)) refuse("an empty zero point");
  requireRange(in, 4);
  denseLike(in, x, x.dtype);
  denseLike(in, x, DType::Bool);
}

// self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point, ...; the four statistics are written
void movingAverage(Infer& in) {
  const TensorType& x = in.tensor(0);
  if (x.dtype != DType::Float32) refuse("observers take f32");
  if (in.integer(10) >= Int(static_cast<int64_t>(x.rank))) refuse("ch_axis is outside the tensor");
  if (numel(x) == Int(0)) refuse("nothing to observe");
  requireRange(in, 8);
  denseLike(in, x, x.dtype);
  denseLike(in, x, DType::Bool);
}

}  // namespace

void addFakeQuantize(Rows& rows) {
  rows.push_back(
      {"aten::fake_quantize_per_tensor_affine_cachemask(Tensor self, float scale, int zero_point, "
       "int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
       perTensor, Cost::Pointwise});
  rows.push_back(
      {"aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(Tensor self, Tensor scale, "
       "Tensor zero_point, Tensor fake_quant_enabled, int quant_min, int quant_max) -> "
       "(Tensor output, Tensor mask)",
       perTensorQparams, Cost::Pointwise});
  rows.push_back(
      {"aten::fake_quantize_per_channel_affine_cachemask(Tensor self, Tensor scale, Tensor zero_point, "
       "int axis, int quant_min, int quant_max) -> (Tensor output, Tensor mask)",
       perChannel, Cost::Pointwise, kFailsOnData});
  // May resize the statistics, as long as they are empty.
  rows.push_back(
      {"aten::_fused_moving_avg_obs_fq_helper(Tensor self, Tensor observer_on, Tensor fake_quant_on, "
       "Tensor(a!) running_min, Tensor(b!) running_max, Tensor(c!) scale, Tensor(d!) zero_point, "
       "float averaging_const, int quant_min, int quant_max, int ch_axis, bool per_row_fake_quant=False, "
       "bool symmetric_quant=False) -> (Tensor output, Tensor mask)",
       movingAverage, Cost::Library, kOwnWrites});
}

}  // namespace saker::ops
