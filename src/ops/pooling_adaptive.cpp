// Pooling to a given output size, pooling over random windows, and its opposite.
#include "ops/accept.h"
#include "ops/families.h"
#include "ops/windows.h"

namespace saker::ops {

namespace {

// Only the batch may be empty.
void requireInput(const TensorType& x, size_t spatial) {
  if (x.rank != spatial + 1 && x.rank != spatial + 2) {
    refuse("pooling needs " + std::to_string(spatial + 1) + " or " + std::to_string(spatial + 2) + " dimensions");
  }
  for (size_t i = 1; i < x.rank; ++i) {
    if (x.size(i) == Int(0)) refuse("pooling over an empty dimension");
  }
}

Dims resized(const TensorType& x, const Dims& spatialSizes) {
  Dims sizes(x.sizes());
  size_t first = x.rank - spatialSizes.size();
  for (size_t i = 0; i < spatialSizes.size(); ++i) {
    if (spatialSizes[i] < Int(0)) refuse("a negative output size");
    sizes[first + i] = spatialSizes[i];
  }
  return sizes;
}

// The kernels of two dimensions keep channels_last, those of three do not know it.
MemoryFormat formatOf(const TensorType& x, size_t spatial) {
  return spatial == 2 && x.rank == 4 ? suggestMemoryFormat(x) : MemoryFormat::Contiguous;
}

Dims exactly(Infer& in, size_t argument, size_t count) {
  Dims out = in.ints(argument);
  if (out.size() != count) refuse("output_size must have " + std::to_string(count) + " elements");
  return out;
}

template <size_t spatial>
void adaptiveAverage(Infer& in) {
  const TensorType& x = in.tensor(0);
  requireInput(x, spatial);
  require(in, kFloats, x.dtype);
  resultIn(in, resized(x, exactly(in, 1, spatial)), formatOf(x, spatial), x.dtype, x.device);
}

// The row as a plane of height one, which is where the memory format comes from; a mean where one element remains.
void adaptiveAverage1d(Infer& in) {
  const TensorType& x = in.tensor(0);
  if (x.rank != 2 && x.rank != 3) refuse("pooling needs 2 or 3 dimensions");
  TensorSpec plane(x);
  Int width = x.size(x.rank - 1);
  plane.sizes.insert(x.rank - 1, Int(1));
  plane.strides.insert(x.rank - 1, width * x.stride(x.rank - 1));
  const TensorType& input = *in.context().types().tensor(plane);
  Int wanted = exactly(in, 1, 1)[0];
  Dims sizes = resized(input, {Int(1), wanted});
  if (wanted == Int(1)) {
    require(in, kFloating | kHalfComplex, x.dtype);
  } else {
    requireInput(input, 2);
    if (!accepts(kFloats, x.dtype) && ir::numel(sizes) != Int(0)) require(in, kFloats, x.dtype);
  }
  TensorSpec spec;
  spec.dtype = x.dtype;
  spec.device = x.device;
  spec.sizes = sizes;
  spec.strides = stridesIn(sizes, formatOf(input, 2));
  spec.sizes.erase(x.rank - 1);
  spec.strides.erase(x.rank - 1);
  in.result(spec);
}

template <size_t spatial>
void adaptiveAverageBackward(Infer& in) {
  const TensorType &grad = in.tensor(0), &x = in.tensor(1);
  requireInput(grad, spatial);
  if (x.rank != grad.rank) refuse("the gradient's rank is not the input's");
  if (x.dtype != grad.dtype) refuse("the gradient is of another dtype");
  require(in, kFloats, x.dtype);
  resultIn(in, x.sizes(), formatOf(x, spatial), x.dtype, x.device);
}

template <size_t spatial>
void adaptiveMax(Infer& in) {
  const TensorType& x = in.tensor(0);
  requireInput(x, spatial);
  require(in, kFloats, x.dtype);
  Dims sizes = resized(x, exactly(in, 1, spatial));
  MemoryFormat format = formatOf(x, spatial);
  resultIn(in, sizes, format, x.dtype, x.device);
  resultIn(in, sizes, format, DType::Int64, x.device);
}

template <size_t spatial>
void adaptiveMaxBackward(Infer& in) {
  const TensorType &grad = in.tensor(0), &x = in.tensor(1), &indices = in.tensor(2);
  requireInput(grad, spatial);
  if (x.rank != grad.rank) refuse("the gradient's rank is not the input's");
  if (x.dtype != grad.dtype || indices.dtype != DType::Int64) refuse("the gradient is of another dtype");
  if (!sameSizes(grad.sizes(), indices.sizes())) refuse("gradient and indices differ in size");
  require(in, kFloats, x.dtype);
  resultIn(in, x.sizes(), formatOf(x, spatial), x.dtype, x.device);
}

// self, kernel_size, output_size, random_samples
template <size_t spatial>
void fractionalMax(Infer& in) {
  const TensorType &x = in.tensor(0), &samples = in.tensor(3);
  Dims kernel = exactly(in, 1, spatial), output = exactly(in, 2, spatial);
  requireInput(x, spatial);
  require(in, kFloats, x.dtype);
  if (x.dtype != samples.dtype) refuse("the samples are of another dtype than the input");
  size_t first = x.rank - spatial;
  for (size_t i = 0; i < spatial; ++i) {
    Int last = output[i] + kernel[i] - Int(1);
    if (spatial == 2 ? last > x.size(first + i) : last >= x.size(first + i)) refuse("the windows do not fit");
    if (output[i] <= Int(0)) refuse("an output size must be positive");
  }
  Int batch = first == 2 ? x.size(0) : Int(1);
  if (samples.rank != 3 || samples.size(0) < batch || samples.size(1) < x.size(first - 1) ||
      samples.size(2) != Int(spatial)) {
    refuse("the samples do not fit the input");
  }
  Dims sizes = resized(x, output);
  in.contiguous(sizes, x);
  in.contiguous(sizes, DType::Int64, x.device);
}

// grad_output, self, kernel_size, output_size, indices
template <size_t spatial>
void fractionalMaxBackward(Infer& in) {
  const TensorType &grad = in.tensor(0), &x = in.tensor(1), &indices = in.tensor(4);
  Dims output = exactly(in, 3, spatial);
  if (x.rank != spatial + 1 && x.rank != spatial + 2) refuse("the input's rank does not fit");
  if (!sameSizes(grad.sizes(), resized(x, output))) refuse("the gradient's sizes do not fit");
  if (grad.dtype != x.dtype || indices.dtype != DType::Int64) refuse("the gradient is of another dtype");
  require(in, kFloats, x.dtype);
  in.contiguous(x.sizes(), x);
}

void requireUnpoolable(Infer& in, const TensorType& x, const TensorType& indices, size_t spatial) {
  if (indices.dtype != DType::Int64) refuse("indices must be int64");
  if (x.rank != spatial + 1 && x.rank != spatial + 2) refuse("max_unpool: the input's rank does not fit");
  if (!sameSizes(x.sizes(), indices.sizes())) refuse("input and indices differ in size");
  for (size_t i = 1; i < x.rank; ++i) {
    if (x.size(i) == Int(0)) refuse("max_unpool over an empty dimension");
  }
  require(in, kFloats, x.dtype);
}

void maxUnpool2d(Infer& in) {
  const TensorType& x = in.tensor(0);
  requireUnpoolable(in, x, in.tensor(1), 2);
  bool ordered = x.rank == 4 && x.device.type == DeviceType::CPU;
  MemoryFormat format = ordered ? suggestMemoryFormat(x) : MemoryFormat::Contiguous;
  resultIn(in, resized(x, exactly(in, 2, 2)), format, x.dtype, x.device);
}

void maxUnpool3d(Infer& in) {
  const TensorType& x = in.tensor(0);
  Dims stride = exactly(in, 3, 3);
  exactly(in, 4, 3);
  for (Int s : stride) {
    if (s <= Int(0)) refuse("strides must be positive");
  }
  requireUnpoolable(in, x, in.tensor(1), 3);
  in.contiguous(resized(x, exactly(in, 2, 3)), x);
}

}  // namespace

void addAdaptivePooling(Rows& rows) {
  auto fill = [](std::string text, size_t spatial) {
    for (size_t at; (at = text.find('#')) != std::string::npos;) text.replace(at, 1, std::to_string(spatial));
    return text;
  };
  rows.push_back(
      {"aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor", adaptiveAverage1d, Cost::Pooling});
  for (size_t n : {2, 3}) {
    auto add = [&](const char* schema, InferFn two, InferFn three, uint32_t traits = kNone) {
      rows.push_back({fill(schema, n), n == 2 ? two : three, Cost::Pooling, traits});
    };
    add("aten::_adaptive_avg_pool#d(Tensor self, SymInt[#] output_size) -> Tensor", adaptiveAverage<2>,
        adaptiveAverage<3>);
    add("aten::_adaptive_avg_pool#d_backward(Tensor grad_output, Tensor self) -> Tensor", adaptiveAverageBackward<2>,
        adaptiveAverageBackward<3>);
    add("aten::adaptive_max_pool#d(Tensor self, int[#] output_size) -> (Tensor, Tensor)", adaptiveMax<2>,
        adaptiveMax<3>);
    add("aten::adaptive_max_pool#d.out(Tensor self, int[#] output_size, *, Tensor(a!) out, Tensor(b!) indices) -> "
        "(Tensor(a!), Tensor(b!))",
        adaptiveMax<2>, adaptiveMax<3>, kExactOut);
    add("aten::adaptive_max_pool#d_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor",
        adaptiveMaxBackward<2>, adaptiveMaxBackward<3>, kFailsOnData);
    add("aten::adaptive_max_pool#d_backward.grad_input(Tensor grad_output, Tensor self, Tensor indices, *, "
        "Tensor(a!) grad_input) -> Tensor(a!)",
        adaptiveMaxBackward<2>, adaptiveMaxBackward<3>, kExactOut | kFailsOnData);
    add("aten::fractional_max_pool#d(Tensor self, int[#] kernel_size, int[#] output_size, Tensor random_samples) -> "
        "(Tensor, Tensor)",
        fractionalMax<2>, fractionalMax<3>);
    add("aten::fractional_max_pool#d_backward(Tensor grad_output, Tensor self, int[#] kernel_size, int[#] output_size, "
        "Tensor indices) -> Tensor",
        fractionalMaxBackward<2>, fractionalMaxBackward<3>, kFailsOnData);
  }
  rows.push_back({"aten::max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor", maxUnpool2d,
                  Cost::Indexing, kFailsOnData});
  rows.push_back(
      {"aten::max_unpool2d.out(Tensor self, Tensor indices, SymInt[2] output_size, *, Tensor(a!) out) -> "
       "Tensor(a!)",
       maxUnpool2d, Cost::Indexing, kFailsOnData | kExactOut});
  rows.push_back(
      {"aten::max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) "
       "-> Tensor",
       maxUnpool3d, Cost::Indexing, kFailsOnData});
  rows.push_back(
      {"aten::max_unpool3d.out(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, "
       "int[3] padding, *, Tensor(a!) out) -> Tensor(a!)",
       maxUnpool3d, Cost::Indexing, kFailsOnData | kExactOut});
}

}  // namespace saker::ops
