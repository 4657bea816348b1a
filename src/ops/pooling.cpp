// Pooling over sliding windows: maxima with their places, averages.
#include "ops/accept.h"
#include "ops/families.h"
#include "ops/windows.h"

namespace saker::ops {

namespace {

// How many windows fit. In ceil mode a last, partial window counts if it starts inside the input or its left padding:
// padding is at most half a window, so at most one window starts beyond.
Int windowCount(Int size, Int kernel, Int padding, Int stride, Int dilation, bool ceil) {
  Int span = size + Int(2) * padding - dilation * (kernel - Int(1)) - Int(1);
  if (!ceil) return span / stride + Int(1);
  return min((span + stride - Int(1)) / stride, (size + padding - Int(1)) / stride) + Int(1);
}

struct Pooling {
  const TensorType* input;
  Dims kernel, stride, padding, dilation;
  bool ceil = false;
  size_t spatial = 2;
  size_t firstSpatial() const { return input->rank - spatial; }
};

// Without a stride windows do not overlap.
Dims strideOrKernel(Infer& in, size_t argument, const Dims& kernel) {
  bool absent = !in.given(argument) || (in.arg(argument).isList() && in.arg(argument).toList().empty());
  return absent ? kernel : perDimension(in, argument, kernel.size());
}

void checkPooling(const Pooling& pool) {
  const TensorType& x = *pool.input;
  if (x.rank != pool.spatial + 1 && x.rank != pool.spatial + 2) {
    refuse("pooling needs " + std::to_string(pool.spatial + 1) + " or " + std::to_string(pool.spatial + 2) +
           " dimensions");
  }
  for (size_t i = 0; i < pool.spatial; ++i) {
    if (pool.kernel[i] <= Int(0) || pool.stride[i] <= Int(0)) refuse("windows and strides must be positive");
    if (pool.dilation[i] <= Int(0)) refuse("dilation must be positive");
    if (pool.padding[i] < Int(0) || pool.padding[i] > pool.kernel[i] / Int(2)) {
      refuse("padding must be at most half of the window");
    }
  }
  // Only the batch may be empty.
  for (size_t i = x.rank == pool.spatial + 2 ? 1 : 0; i < x.rank; ++i) {
    if (x.size(i) == Int(0)) refuse("pooling over an empty dimension");
  }
}

Dims pooledSizes(const Pooling& pool) {
  Dims sizes(pool.input->sizes());
  for (size_t i = 0, at = pool.firstSpatial(); i < pool.spatial; ++i, ++at) {
    Int size = windowCount(sizes[at], pool.kernel[i], pool.padding[i], pool.stride[i], pool.dilation[i], pool.ceil);
    if (size < Int(1)) refuse("no window fits into the input");
    sizes[at] = size;
  }
  return sizes;
}

// A batch of one put around a tensor without one.
const TensorType& batched(Infer& in, const TensorType& t) {
  TensorSpec spec = in.viewOf(t);
  spec.strides.insert(0, t.size(0) * t.stride(0));
  spec.sizes.insert(0, Int(1));
  return *in.context().types().tensor(spec);
}

// The strides of a maximum's results, whose memory order follows `like`.
void maximumResult(Infer& in, IntSpan sizes, size_t spatial, const TensorType& like, DType dtype) {
  if (spatial == 2 || like.rank == 5) {
    MemoryFormat format = like.rank == 3 ? MemoryFormat::Contiguous : suggestMemoryFormat(like);
    // The out= form of three dimensions changes the strides of `out` even where its sizes fit.
    if (spatial == 3 && in.op().variant == Variant::Out && format != MemoryFormat::Contiguous) {
      unsupported("out= of a pooling in channels_last_3d");
    }
    return resultIn(in, sizes, format, dtype, like.device);
  }
  if (suggestMemoryFormat(like) != MemoryFormat::Contiguous) {
    refuse("max_pool3d reads these strides as channels_last of two dimensions");
  }
  // Without a batch the strides alone do not tell the order (T, H, W, C).
  if (isContiguous(like) || !isContiguous(batched(in, like), MemoryFormat::ChannelsLast3d)) {
    return in.contiguous(sizes, dtype, like.device);
  }
  Dims wide(sizes);
  wide.insert(0, Int(1));
  TensorSpec spec;
  spec.dtype = dtype;
  spec.device = like.device;
  spec.sizes = Dims(sizes);
  spec.strides = stridesIn(wide, MemoryFormat::ChannelsLast3d);
  spec.strides.erase(0);
  in.result(spec);
}

template <size_t spatial>
Pooling maxArguments(Infer& in, size_t input) {
  Pooling pool;
  pool.spatial = spatial;
  pool.input = &in.tensor(input);
  pool.kernel = perDimension(in, input + 1, spatial);
  pool.stride = strideOrKernel(in, input + 2, pool.kernel);
  pool.padding = perDimension(in, input + 3, spatial);
  pool.dilation = perDimension(in, input + 4, spatial);
  pool.ceil = in.boolean(input + 5);
  checkPooling(pool);
  return pool;
}

template <size_t spatial>
void maxPool(Infer& in) {
  Pooling pool = maxArguments<spatial>(in, 0);
  const TensorType& x = *pool.input;
  require(in, x.device.type == DeviceType::CPU ? kReal : kFloats, x.dtype);
  Dims sizes = pooledSizes(pool);
  maximumResult(in, sizes, spatial, x, x.dtype);
  maximumResult(in, sizes, spatial, x, DType::Int64);
}

// grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices
template <size_t spatial>
void maxPoolBackward(Infer& in) {
  Pooling pool = maxArguments<spatial>(in, 1);
  const TensorType &grad = in.tensor(0), &x = *pool.input, &indices = in.tensor(7);
  Dims sizes = pooledSizes(pool);
  require(in, kFloats, x.dtype);
  if (!sameSizes(grad.sizes(), sizes) || !sameSizes(indices.sizes(), sizes)) refuse("the gradient's sizes do not fit");
  if (grad.dtype != x.dtype || indices.dtype != DType::Int64) refuse("the gradient is of another dtype");
  // On CPU, without a batch, the gradient decides on the memory order.
  bool byGradient = spatial == 3 && x.rank == 4 && x.device.type == DeviceType::CPU;
  maximumResult(in, x.sizes(), spatial, byGradient ? grad : x, x.dtype);
}

template <size_t spatial>
Pooling averageArguments(Infer& in, size_t input) {
  Pooling pool;
  pool.spatial = spatial;
  pool.input = &in.tensor(input);
  pool.kernel = perDimension(in, input + 1, spatial);
  pool.stride = strideOrKernel(in, input + 2, pool.kernel);
  pool.padding = perDimension(in, input + 3, spatial);
  pool.dilation = Dims(spatial, Int(1));
  pool.ceil = in.boolean(input + 4);
  checkPooling(pool);
  for (size_t i = 0; spatial == 3 && i < spatial; ++i) {
    if (pool.input->size(pool.firstSpatial() + i) < pool.kernel[i]) refuse("the window is larger than the input");
  }
  if (in.given(input + 6) && in.integer(input + 6) == Int(0)) refuse("divisor_override must not be zero");
  return pool;
}

template <size_t spatial>
void requireAverage(const TensorType& x) {
  bool narrow = ir::isFloat(x.dtype) && ir::byteSize(x.dtype) < 4;
  bool onCpu = x.device.type == DeviceType::CPU;
  if ((!accepts(kFloats, x.dtype) && (x.dtype != DType::Int64 || !onCpu)) || (spatial == 3 && narrow && onCpu)) {
    refuse("no average of this dtype");
  }
}

MemoryFormat averageFormat(const TensorType& x, size_t spatial) {
  return spatial == 2 && x.rank == 4 ? suggestMemoryFormat(x) : MemoryFormat::Contiguous;
}

template <size_t spatial>
void averagePool(Infer& in) {
  Pooling pool = averageArguments<spatial>(in, 0);
  const TensorType& x = *pool.input;
  requireAverage<spatial>(x);
  resultIn(in, pooledSizes(pool), averageFormat(x, spatial), x.dtype, x.device);
}

template <size_t spatial>
void averagePoolBackward(Infer& in) {
  Pooling pool = averageArguments<spatial>(in, 1);
  const TensorType &grad = in.tensor(0), &x = *pool.input;
  requireAverage<spatial>(x);
  if (grad.dtype != x.dtype) refuse("the gradient is of another dtype");
  if (!sameSizes(grad.sizes(), pooledSizes(pool))) refuse("the gradient's sizes do not fit");
  resultIn(in, x.sizes(), averageFormat(x, spatial), x.dtype, x.device);
}

// Where it arrives undecomposed: pooling of two dimensions, the first of size 1.
void averagePool1d(Infer& in) {
  const TensorType& x = in.tensor(0);
  Pooling pool;
  pool.spatial = 1;
  pool.input = &x;
  pool.kernel = perDimension(in, 1, 1);
  pool.stride = strideOrKernel(in, 2, pool.kernel);
  pool.padding = perDimension(in, 3, 1);
  pool.dilation = Dims(1, Int(1));
  pool.ceil = in.boolean(4);
  checkPooling(pool);
  requireAverage<1>(x);
  TensorSpec wide = in.viewOf(x);
  wide.strides.insert(x.rank - 1, x.size(x.rank - 1) * x.stride(x.rank - 1));
  wide.sizes.insert(x.rank - 1, Int(1));
  MemoryFormat format = averageFormat(*in.context().types().tensor(wide), 2);
  TensorSpec spec;
  spec.dtype = x.dtype;
  spec.device = x.device;
  spec.sizes = pooledSizes(pool);
  wide.sizes[x.rank] = spec.sizes[x.rank - 1];
  spec.strides = stridesIn(wide.sizes, format);
  spec.strides.erase(x.rank - 1);
  in.result(spec);
}

}  // namespace

void addPooling(Rows& rows) {
  auto fill = [](std::string text, size_t spatial) {
    for (size_t at; (at = text.find('#')) != std::string::npos;) text.replace(at, 1, std::to_string(spatial));
    return text;
  };
  for (size_t n : {2, 3}) {
    auto add = [&](const char* schema, InferFn two, InferFn three, uint32_t traits = kNone) {
      rows.push_back({fill(schema, n), n == 2 ? two : three, Cost::Pooling, traits});
    };
    add("aten::max_pool#d_with_indices(Tensor self, int[#] kernel_size, int[#] stride=[], int[#] padding=0, "
        "int[#] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
        maxPool<2>, maxPool<3>);
    add("aten::max_pool#d_with_indices.out(Tensor self, int[#] kernel_size, int[#] stride=[], int[#] padding=0, "
        "int[#] dilation=1, bool ceil_mode=False, *, Tensor(a!) out, Tensor(b!) indices) -> (Tensor(a!), Tensor(b!))",
        maxPool<2>, maxPool<3>, kExactOut);
    add("aten::max_pool#d_with_indices_backward(Tensor grad_output, Tensor self, int[#] kernel_size, int[#] stride, "
        "int[#] padding, int[#] dilation, bool ceil_mode, Tensor indices) -> Tensor",
        maxPoolBackward<2>, maxPoolBackward<3>);
    add("aten::max_pool#d_with_indices_backward.grad_input(Tensor grad_output, Tensor self, int[#] kernel_size, "
        "int[#] stride, int[#] padding, int[#] dilation, bool ceil_mode, Tensor indices, *, Tensor(a!) grad_input) -> "
        "Tensor(a!)",
        maxPoolBackward<2>, maxPoolBackward<3>, kExactOut);
    add("aten::avg_pool#d(Tensor self, int[#] kernel_size, int[#] stride=[], int[#] padding=0, bool ceil_mode=False, "
        "bool count_include_pad=True, int? divisor_override=None) -> Tensor",
        averagePool<2>, averagePool<3>);
    add("aten::avg_pool#d.out(Tensor self, int[#] kernel_size, int[#] stride=[], int[#] padding=0, "
        "bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None, *, Tensor(a!) out) -> "
        "Tensor(a!)",
        averagePool<2>, averagePool<3>, kExactOut);
    add("aten::avg_pool#d_backward(Tensor grad_output, Tensor self, int[#] kernel_size, int[#] stride, int[#] padding, "
        "bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor",
        averagePoolBackward<2>, averagePoolBackward<3>);
    add("aten::avg_pool#d_backward.grad_input(Tensor grad_output, Tensor self, int[#] kernel_size, int[#] stride, "
        "int[#] padding, bool ceil_mode, bool count_include_pad, int? divisor_override, *, Tensor(a!) grad_input) -> "
        "Tensor(a!)",
        averagePoolBackward<2>, averagePoolBackward<3>, kExactOut);
  }
  rows.push_back(
      {"aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], "
       "bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
       averagePool1d, Cost::Pooling});
}

}  // namespace saker::ops
