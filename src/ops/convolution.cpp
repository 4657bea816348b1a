// Convolutions and their backward.
#include "ops/convolution.h"

#include "ops/accept.h"
#include "ops/families.h"
#include "ops/windows.h"

namespace saker::ops {

namespace {

void requireAtLeast(IntSpan values, Int least, const char* what) {
  for (Int value : values) {
    if (value < least) refuse(std::string(what) + " of " + sym::toString(value));
  }
}

Int windowExtent(const Convolution& conv, size_t i) {
  return conv.dilation[i] * (conv.weight->size(2 + i) - Int(1)) + Int(1);
}

void checkChannels(const Convolution& conv) {
  const TensorType &x = *conv.input, &w = *conv.weight;
  if (conv.groups <= Int(0)) refuse("groups must be positive");
  bool grouped = !conv.groups.isConst(1);
  if (w.size(0) < conv.groups) refuse("the weight has fewer channels than there are groups");
  if (grouped && w.size(0) % conv.groups != Int(0)) refuse("the weight's channels do not divide into the groups");
  Int expected = conv.transposed ? w.size(0) : w.size(1) * conv.groups;
  if (x.size(1) != expected) {
    refuse("the input has " + sym::toString(x.size(1)) + " channels, the weight is for " + sym::toString(expected));
  }
}

void checkDTypes(Infer& in, const Convolution& conv) {
  const TensorType &x = *conv.input, &w = *conv.weight;
  require(in, x.device.type == DeviceType::CPU ? kReal : kFloats, x.dtype);
  if (x.dtype != w.dtype) refuse("input and weight are of different dtypes");
  if (x.device != w.device) refuse("input and weight are on different devices");
  // ATen's loops for windows with gaps and for transposed convolutions know one integer type only.
  bool gaps = false;
  for (Int dilation : conv.dilation) gaps |= !dilation.isConst(1);
  if (!ir::isFloat(x.dtype) && x.dtype != DType::Int64 && (conv.transposed || gaps)) {
    refuse("no kernel for this integer type");
  }
}

Convolution arguments(Infer& in, size_t input, size_t weight, size_t stride) {
  Convolution conv;
  conv.input = &in.tensor(input);
  conv.weight = &in.tensor(weight);
  if (conv.weight->rank != conv.input->rank || conv.input->rank < 3 || conv.input->rank > 5) {
    refuse("input and weight must both have 3, 4 or 5 dimensions");
  }
  size_t count = conv.spatial();
  conv.stride = perDimension(in, stride, count);
  conv.padding = perDimension(in, stride + 1, count);
  conv.dilation = perDimension(in, stride + 2, count);
  conv.transposed = in.boolean(stride + 3);
  conv.outputPadding = perDimension(in, stride + 4, count);
  conv.groups = in.integer(stride + 5);
  return conv;
}

void convolve(Infer& in, const Convolution& conv, const TensorType* bias) {
  checkConvolution(in, conv);
  if (bias) {
    if (bias->rank != 1 || bias->size(0) != conv.outputChannels())
      refuse("the bias does not fit the output's channels");
    if (bias->dtype != conv.input->dtype || bias->device != conv.input->device) refuse("the bias is of another kind");
  }
  Dims sizes = outputSizes(conv);
  if (numel(*conv.input) == Int(0)) {
    // An empty batch comes back as a view of what it was multiplied with: its own strides where the sizes agree.
    if (conv.input->size(0) != Int(0) || sameSizes(sizes, conv.input->sizes()))
      unsupported("a convolution over nothing");
    return in.contiguous(sizes, *conv.input);
  }
  // The out= forms compute a fresh tensor and copy it into `out`, which is row-major when it had to be resized.
  if (in.op().variant == Variant::Out) return in.contiguous(sizes, *conv.input);
  convolutionResult(in, sizes, chooseFormats(in, conv, sizes).output, *conv.input);
}

// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
void convolution(Infer& in) { convolve(in, arguments(in, 0, 1, 3), in.optionalTensor(2)); }

// The same, then benchmark, deterministic, cudnn_enabled, allow_tf32
void flaggedConvolution(Infer& in) {
  Convolution conv = arguments(in, 0, 1, 3);
  conv.withoutCudnn = !in.boolean(11, true);
  convolve(in, conv, in.optionalTensor(2));
}

// self, weight, bias, padding, stride, dilation, groups: oneDNN's own entry point
void mkldnnConvolution(Infer& in) {
  Convolution conv;
  conv.input = &in.tensor(0);
  conv.weight = &in.tensor(1);
  if (conv.input->device.type != DeviceType::CPU) refuse("oneDNN works on CPU");
  if (conv.input->dtype != DType::Float32 || conv.input->rank < 4) {
    unsupported("mkldnn_convolution beyond f32 in two and three dimensions");
  }
  conv.padding = perDimension(in, 3, conv.spatial());
  conv.stride = perDimension(in, 4, conv.spatial());
  conv.dilation = perDimension(in, 5, conv.spatial());
  conv.outputPadding = Dims(conv.spatial());
  conv.groups = in.integer(6);
  conv.byLibrary = true;
  convolve(in, conv, in.optionalTensor(2));
}

// grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask
void convolutionBackward(Infer& in) {
  const TensorType& grad = in.tensor(0);
  Convolution conv = arguments(in, 1, 2, 4);
  conv.gradient = &grad;
  checkConvolution(in, conv);
  if (numel(*conv.input) == Int(0)) unsupported("the backward of a convolution over nothing");
  Dims sizes = outputSizes(conv);
  if (!sameSizes(grad.sizes(), sizes)) refuse("the gradient's sizes are not those of the output");
  if (grad.dtype != conv.input->dtype || grad.device != conv.input->device) refuse("the gradient is of another kind");
  Dims mask = in.ints(10);
  if (mask.size() != 3) refuse("output_mask must have three elements");
  bool wantsInput = mask[0].guard(), wantsWeight = mask[1].guard(), wantsBias = mask[2].guard();
  ConvolutionFormats formats = chooseFormats(in, conv, sizes);
  wantsInput ? convolutionResult(in, conv.input->sizes(), formats.gradInput, *conv.input) : noResult(in);
  if (wantsWeight) {
    convolutionResult(in, conv.weight->sizes(), formats.gradWeight, *conv.weight);
  } else if (wantsBias && conv.input->device.type == DeviceType::CPU && usesLibrary(in, conv)) {
    // oneDNN computes the gradients of weight and bias together and hands out both; the one that nobody asked for keeps
    // the form of two spatial dimensions.
    Dims wide(conv.weight->sizes());
    if (conv.spatial() == 1) wide.insert(2, Int(1));
    convolutionResult(in, wide, formats.gradWeight, *conv.weight);
  } else {
    noResult(in);
  }
  wantsBias ? in.contiguous(Dims{conv.outputChannels()}, grad) : noResult(in);
}

// Time, batch, channels: a window over the first dimension.
void convTbc(Infer& in) {
  const TensorType &x = in.tensor(0), &w = in.tensor(1), &bias = in.tensor(2);
  if (x.rank != 3 || w.rank != 3 || bias.rank != 1) refuse("conv_tbc takes tensors of 3, 3 and 1 dimensions");
  Int time = x.size(0) - w.size(0) + Int(1) + Int(2) * in.integer(3);
  if (x.size(2) != w.size(1) || w.size(2) != bias.size(0)) refuse("the channels do not fit");
  if (time < Int(0)) refuse("the window is longer than the padded input");
  if (x.dtype != w.dtype || x.dtype != bias.dtype) refuse("conv_tbc: operands of different types");
  require(in, x.device.type == DeviceType::CPU ? kNumbers : kFloating, x.dtype);
  if (!isContiguous(x))
    unsupported("conv_tbc of an input that is not row-major");  // eager takes a view of it, or raises
  in.contiguous(Dims{time, x.size(1), w.size(2)}, x);
}

}  // namespace

void checkConvolution(Infer& in, const Convolution& conv) {
  requireAtLeast(conv.padding, Int(0), "padding");
  requireAtLeast(conv.outputPadding, Int(0), "output_padding");
  requireAtLeast(conv.stride, Int(1), "stride");
  requireAtLeast(conv.dilation, Int(1), "dilation");
  checkChannels(conv);
  checkDTypes(in, conv);
  for (size_t i = 0; i < conv.spatial(); ++i) {
    if (conv.weight->size(2 + i) == Int(0)) refuse("a window of size 0");
    if (!conv.transposed) {
      if (conv.input->size(2 + i) + Int(2) * conv.padding[i] < windowExtent(conv, i)) {
        refuse("the window is larger than the padded input");
      }
    } else if (!conv.outputPadding[i].isConst(0) && conv.outputPadding[i] >= conv.stride[i] &&
               conv.outputPadding[i] >= conv.dilation[i]) {
      refuse("output_padding must be smaller than stride or dilation");
    }
  }
}

Dims outputSizes(const Convolution& conv) {
  Dims sizes{conv.input->size(0), conv.outputChannels()};
  for (size_t i = 0; i < conv.spatial(); ++i) {
    Int in = conv.input->size(2 + i), both = Int(2) * conv.padding[i];
    if (conv.transposed) {
      Int size = (in - Int(1)) * conv.stride[i] - both + windowExtent(conv, i) + conv.outputPadding[i];
      if (size < Int(1)) unsupported("a transposed convolution that gives nothing");
      sizes.push_back(size);
    } else {
      sizes.push_back((in + both - windowExtent(conv, i)) / conv.stride[i] + Int(1));
    }
  }
  return sizes;
}

void addConvolution(Rows& rows) {
  const std::string common =
      "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups";
  const std::string tensors = "Tensor input, Tensor weight, Tensor? bias, ";
  const std::string flags = ", bool benchmark, bool deterministic, bool cudnn_enabled, bool allow_tf32";
  auto add = [&](const std::string& name, const std::string& arguments, InferFn rule) {
    rows.push_back({"aten::" + name + "(" + arguments + ") -> Tensor", rule, Cost::Convolution});
    rows.push_back({"aten::" + name + ".out(" + arguments + ", *, Tensor(a!) out) -> Tensor(a!)", rule,
                    Cost::Convolution, kExactOut});
  };
  add("convolution", tensors + common, convolution);
  add("_convolution", tensors + common + flags, flaggedConvolution);
  add("mkldnn_convolution",
      "Tensor self, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] stride, SymInt[] dilation, SymInt groups",
      mkldnnConvolution);
  add("conv_tbc", "Tensor self, Tensor weight, Tensor bias, int pad=0", convTbc);
  const std::string backward =
      "Tensor grad_output, Tensor input, Tensor weight, SymInt[]? bias_sizes, " + common + ", bool[3] output_mask";
  rows.push_back({"aten::convolution_backward(" + backward + ") -> (Tensor, Tensor, Tensor)", convolutionBackward,
                  Cost::Convolution});
}

}  // namespace saker::ops
