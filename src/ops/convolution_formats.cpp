// Which memory format the results of a convolution have. It depends on the kernels that ATen chooses (oneDNN or cuDNN,
// or loops of its own that handle one group at a time and join the results), and on strides that look like
// channels_last. The rules were found by comparing with eager mode over random cases: on CPU with torch 2.13, on an
// H200 with 2.11.
#include "ops/convolution.h"
#include "ops/windows.h"

namespace saker::ops {

namespace {

// Sizes and strides of an intermediate tensor, held as a type so that the common questions apply.
const TensorType& typed(Infer& in, const TensorType& like, IntSpan sizes, IntSpan strides) {
  TensorSpec spec;
  spec.dtype = like.dtype;
  spec.device = like.device;
  spec.sizes = Dims(sizes);
  spec.strides = Dims(strides);
  return *in.context().types().tensor(spec);
}

const TensorType& contiguousIn(Infer& in, const TensorType& t, MemoryFormat format) {
  return isContiguous(t, format) ? t : typed(in, t, t.sizes(), stridesIn(t.sizes(), format));
}

// (N, C, L) seen as (N, C, 1, L).
const TensorType& asTwoDimensional(Infer& in, const TensorType& t) {
  Dims sizes(t.sizes()), strides(t.strides());
  strides.insert(2, sizes[2] * strides[2]);
  sizes.insert(2, Int(1));
  return typed(in, t, sizes, strides);
}

// The part of `t` that one group works on, in the format that `t` seems to have.
const TensorType& oneGroup(Infer& in, const TensorType& t, size_t dim, Int groups) {
  Dims sizes(t.sizes());
  sizes[dim] = sizes[dim] / groups;
  return contiguousIn(in, typed(in, t, sizes, t.strides()), suggestMemoryFormat(t));
}

bool anyAbove(IntSpan values, Int limit) {
  for (Int value : values) {
    if (value > limit) return true;
  }
  return false;
}

// The format of a tensor joined from the groups' parts along `dim`: that of the parts.
MemoryFormat joined(Infer& in, const TensorType& like, IntSpan sizes, size_t dim, Int groups, MemoryFormat ofParts) {
  Dims part(sizes);
  part[dim] = part[dim] / groups;
  return suggestMemoryFormat(typed(in, like, part, stridesIn(part, ofParts)));
}

}  // namespace

bool usesLibrary(const Infer& in, const Convolution& conv) {
  const TensorType &x = *conv.input, &w = *conv.weight;
  bool onCpu = x.device.type == DeviceType::CPU;
  if (conv.byLibrary) return true;
  if (conv.transposed) {
    for (size_t i = 0; i < conv.outputPadding.size(); ++i) {
      if (conv.outputPadding[i] >= conv.stride[i]) return false;
    }
  }
  if (!onCpu) return !conv.withoutCudnn;
  if (x.dtype == DType::BFloat16) return in.context().ambient().oneDnnTakesBFloat16;
  if (x.dtype == DType::Float16) return in.context().ambient().oneDnnTakesHalf;
  if (x.dtype != DType::Float32) return false;
  if (conv.groups != Int(1)) return true;
  Int rows = w.rank > 3 ? w.size(w.rank - 2) : Int(1);
  if (w.size(w.rank - 1) > Int(3) && rows > Int(3)) return true;
  if (x.size(0) != Int(1)) return true;
  Int work = x.size(1) * x.size(2) * (x.rank > 3 ? x.size(3) : Int(1));
  return static_cast<bool>(work > Int(20480));
}

namespace {

// cuDNN is given tensors in the format `given`, but looks again at the strides of some of them for each gradient: where
// dimensions are of size 1, they may be read another way.
void chooseCudnnFormats(Infer& in, const Convolution& conv, const TensorType& x, const TensorType& w,
                        MemoryFormat given, MemoryFormat last, ConvolutionFormats& formats) {
  auto isLast = [&](const TensorType& t) { return suggestMemoryFormat(contiguousIn(in, t, given)) == last; };
  formats.output = formats.gradInput = given;
  if (!conv.gradient) return;
  const TensorType* grad = conv.gradient;
  if (conv.spatial() == 1) grad = &asTwoDimensional(in, contiguousIn(in, *grad, MemoryFormat::Contiguous));
  bool gradLast = conv.transposed && isLast(*grad);
  if (conv.transposed) formats.gradInput = gradLast || isLast(w) ? last : MemoryFormat::Contiguous;
  formats.gradWeight = gradLast || isLast(x) ? last : MemoryFormat::Contiguous;
}

}  // namespace

ConvolutionFormats chooseFormats(Infer& in, const Convolution& conv, IntSpan outputSizes) {
  ConvolutionFormats formats;
  bool three = conv.spatial() == 3;
  const TensorType* x = conv.input;
  const TensorType* w = conv.weight;
  if (conv.spatial() == 1) {
    // A permuted input is made row-major first; only the weight can bring channels_last in.
    x = &asTwoDimensional(in, contiguousIn(in, *x, MemoryFormat::Contiguous));
    w = &asTwoDimensional(in, *w);
  }
  MemoryFormat last = three ? MemoryFormat::ChannelsLast3d : MemoryFormat::ChannelsLast;
  bool anyLast = suggestMemoryFormat(*x) == last || suggestMemoryFormat(*w) == last;
  if (x->device.type == DeviceType::CUDA) {
    MemoryFormat given = anyLast ? last : MemoryFormat::Contiguous;
    formats.library = usesLibrary(in, conv);
    if (formats.library && x->dtype != DType::Float64) chooseCudnnFormats(in, conv, *x, *w, given, last, formats);
    return formats;
  }
  if (!anyLast) return formats;
  formats.library = usesLibrary(in, conv);
  if (formats.library) {
    formats.output = formats.gradInput = formats.gradWeight = last;
    return formats;
  }
  if (three) return formats;
  bool dilated = !conv.transposed && anyAbove(conv.dilation, Int(1));
  w = &contiguousIn(in, *w, last);
  if (conv.groups == Int(1)) {
    formats.output = formats.gradInput = last;
    formats.gradWeight = dilated ? last : suggestMemoryFormat(*w);
    return formats;
  }
  const TensorType& partX = oneGroup(in, contiguousIn(in, *x, last), 1, conv.groups);
  const TensorType& partW = oneGroup(in, *w, 0, conv.groups);
  bool lastParts = suggestMemoryFormat(partX) == last || suggestMemoryFormat(partW) == last;
  MemoryFormat ofParts = lastParts ? last : MemoryFormat::Contiguous;
  Dims sizes(outputSizes);
  if (conv.spatial() == 1) sizes.insert(2, Int(1));
  formats.output = joined(in, *x, sizes, 1, conv.groups, ofParts);
  formats.gradInput = joined(in, *x, x->sizes(), 1, conv.groups, ofParts);
  MemoryFormat ofWeightParts = dilated ? ofParts : suggestMemoryFormat(contiguousIn(in, partW, ofParts));
  formats.gradWeight = joined(in, *w, w->sizes(), 0, conv.groups, ofWeightParts);
  return formats;
}

void convolutionResult(Infer& in, IntSpan sizes, MemoryFormat format, const TensorType& like) {
  if (sizes.size() != 3 || format == MemoryFormat::Contiguous) {
    resultIn(in, sizes, format, like.dtype, like.device);
    return;
  }
  Dims wide(sizes);
  wide.insert(2, Int(1));
  TensorSpec spec;
  spec.dtype = like.dtype;
  spec.device = like.device;
  spec.sizes = Dims(sizes);
  spec.strides = stridesIn(wide, format);
  spec.strides.erase(2);
  in.result(spec);
}

}  // namespace saker::ops
