// Normalisation over trailing dimensions, over groups of channels, and of weights.
#include "ir/torch_facts.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/normalization.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

// The first of the normalised dimensions, which `shape` names from the end.
size_t normalizedFrom(const TensorType& input, IntSpan shape) {
  if (shape.empty()) refuse("a normalisation over no dimension");
  if (shape.size() > input.rank) refuse("a normalisation over more dimensions than the input has");
  size_t from = input.rank - shape.size();
  if (!sameSizes(input.sizes().subspan(from), shape)) refuse("the input's last sizes are not the normalised shape");
  return from;
}

void requireShape(const TensorType* parameter, IntSpan shape) {
  if (parameter && !sameSizes(parameter->sizes(), shape)) refuse("a parameter is not of the normalised shape");
}

Dims onesFrom(const TensorType& input, size_t from) {
  Dims sizes(input.sizes());
  for (size_t i = from; i < sizes.size(); ++i) sizes[i] = 1;
  return sizes;
}

// (input, normalized_shape, weight, bias, eps)
void layerNorm(Infer& in) {
  const TensorType& input = in.tensor(0);
  Dims shape = in.ints(1);
  const TensorType *weight = in.optionalTensor(2), *bias = in.optionalTensor(3);
  size_t from = normalizedFrom(input, shape);
  requireShape(weight, shape);
  requireShape(bias, shape);
  DType statistics = statisticsDType(input, {weight, bias});
  in.contiguous(input.sizes(), input);
  Dims sizes = onesFrom(input, from);
  in.contiguous(sizes, statistics, input.device);
  in.contiguous(sizes, statistics, input.device);
}

void parameterGradient(Infer& in, bool asked, const TensorType* parameter) {
  if (!asked) return undefinedResult(in);
  if (!parameter) refuse("a gradient of a parameter that is not there");
  in.contiguous(parameter->sizes(), *parameter);
}

// (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
void layerNormBackward(Infer& in) {
  const TensorType& grad = in.tensor(0);
  const TensorType& input = in.tensor(1);
  Dims shape = in.ints(2);
  const TensorType *weight = in.optionalTensor(5), *bias = in.optionalTensor(6);
  normalizedFrom(input, shape);
  requireShape(weight, shape);
  requireShape(bias, shape);
  if (!sameSizes(grad.sizes(), input.sizes())) refuse("layer norm: the gradient is not of the input's shape");
  // Here the weight alone says whether statistics are wider than the input.
  DType statistics = statisticsDType(input, {weight});
  if (in.tensor(3).dtype != statistics || in.tensor(4).dtype != statistics)
    refuse("layer norm: statistics of another dtype");
  if (grad.dtype != input.dtype) refuse("layer norm: the gradient is not of the input's dtype");
  if (wanted(in, 7, 0)) {
    in.contiguous(input.sizes(), input);
  } else {
    undefinedResult(in);
  }
  parameterGradient(in, wanted(in, 7, 1), weight);
  parameterGradient(in, wanted(in, 7, 2), bias);
}

// CUDA only; elsewhere it is made of other operators. (input, normalized_shape, weight, eps)
void rmsNorm(Infer& in) {
  const TensorType& input = in.tensor(0);
  if (input.device.type == DeviceType::CPU) unsupported("no fused kernel on the CPU");
  Dims shape = in.ints(1);
  size_t from = normalizedFrom(input, shape);
  requireShape(in.optionalTensor(2), shape);
  in.contiguous(input.sizes(), input);
  in.contiguous(onesFrom(input, from), statisticsDType(input, {}), input.device);
}

// (grad_out, input, normalized_shape, rstd, weight, output_mask)
void rmsNormBackward(Infer& in) {
  const TensorType& input = in.tensor(1);
  if (input.device.type == DeviceType::CPU) unsupported("no fused kernel on the CPU");
  Dims shape = in.ints(2);
  normalizedFrom(input, shape);
  if (wanted(in, 5, 0)) {
    in.contiguous(input.sizes(), input);
  } else {
    undefinedResult(in);
  }
  parameterGradient(in, wanted(in, 5, 1), in.optionalTensor(4));
}

struct Groups {
  Int n, channels, area;
  int64_t groups;
};

Groups groupsAt(const Infer& in, size_t first) {
  Groups g{in.integer(first), in.integer(first + 1), in.integer(first + 2), in.fixed(first + 3)};
  if (g.groups <= 0) refuse("group norm: the number of groups must be positive");
  if (g.channels % Int(g.groups) != Int(0)) refuse("group norm: channels do not divide into groups");
  return g;
}

void requireChannels(const TensorType* parameter, const Groups& g) {
  if (parameter && (parameter->rank != 1 || parameter->size(0) != g.channels)) {
    refuse("group norm: a parameter is no vector of channels");
  }
}

MemoryFormat groupNormFormat(const TensorType& input) {
  return input.device.type == DeviceType::CPU ? suggestMemoryFormat(input) : MemoryFormat::Contiguous;
}

bool makesDense(const Infer& in, const TensorType& input) {
  return in.context().ambient().torch->groupNormMakesDense && input.device.type == DeviceType::CPU;
}

void inputLike(Infer& in, const TensorType& input) {
  in.strided(input.sizes(), stridesIn(input.sizes(), groupNormFormat(input)), input.dtype, input.device);
}

void requireDense(const Infer& in, const TensorType& input, const Groups& g) {
  if (!makesDense(in, input)) {
    if (!isContiguous(input, groupNormFormat(input))) refuse("group norm: the input must be dense");
  } else if (g.channels == Int(0) || g.area == Int(0)) {
    refuse("group norm: no channels, or channels without elements");
  }
}

// (input, weight, bias, N, C, HxW, group, eps)
void groupNorm(Infer& in) {
  const TensorType& input = in.tensor(0);
  const TensorType *weight = in.optionalTensor(1), *bias = in.optionalTensor(2);
  Groups g = groupsAt(in, 3);
  requireChannels(weight, g);
  requireChannels(bias, g);
  if (numel(input) != g.n * g.channels * g.area) refuse("group norm: the input does not have N * C * HxW elements");
  requireDense(in, input, g);
  DType statistics = statisticsDType(input, {weight, bias});
  inputLike(in, input);
  in.contiguous(Dims{g.n, Int(g.groups)}, statistics, input.device);
  in.contiguous(Dims{g.n, Int(g.groups)}, statistics, input.device);
}

// The gradients of the dense input and, whether they are there or not, of the parameters.
void denseGroupNormGradients(Infer& in, const TensorType& input, const Groups& g) {
  const TensorType *mean = &in.tensor(2), *weight = in.optionalTensor(4);
  if (!wanted(in, 9, 0)) {
    undefinedResult(in);
  } else if (isContiguous(input, groupNormFormat(input))) {
    likeResult(in, input, input.dtype);
  } else {
    inputLike(in, input);
  }
  for (size_t i : {1, 2}) {
    if (!wanted(in, 9, i)) {
      undefinedResult(in);
      continue;
    }
    if (!weight && mean->dtype != input.dtype) refuse("group norm: statistics of another dtype, and no parameter");
    in.contiguous(Dims{g.channels}, weight ? weight->dtype : input.dtype, input.device);
  }
}

// (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
void groupNormBackward(Infer& in) {
  const TensorType& grad = in.tensor(0);
  const TensorType& input = in.tensor(1);
  const TensorType *mean = &in.tensor(2), *rstd = &in.tensor(3), *weight = in.optionalTensor(4);
  Groups g = groupsAt(in, 5);
  Int count = g.n * g.channels * g.area;
  if (grad.dtype != input.dtype) refuse("group norm: the gradient is not of the input's dtype");
  if (numel(input) != count || numel(grad) != count) refuse("group norm: a tensor does not have N * C * HxW elements");
  Int statistics = g.n * Int(g.groups);
  if (numel(*mean) != statistics || numel(*rstd) != statistics) refuse("group norm: statistics of another size");
  if (weight && numel(*weight) != g.channels) refuse("group norm: a parameter is no vector of channels");
  statisticsDType(input, {mean, rstd, weight});
  if (makesDense(in, input)) return denseGroupNormGradients(in, input, g);
  if (wanted(in, 9, 0)) {
    inputLike(in, input);
  } else {
    undefinedResult(in);
  }
  parameterGradient(in, wanted(in, 9, 1), weight);
  parameterGradient(in, wanted(in, 9, 2), weight);  // the bias is no argument; it is like the weight
}

void requireOuterDim(int64_t dim, const TensorType& v) {
  if (dim != 0 && dim != static_cast<int64_t>(v.rank) - 1) refuse("weight norm: the first dimension or the last");
}

// (v, g, dim)
void weightNorm(Infer& in) {
  const TensorType& v = in.tensor(0);
  const TensorType& g = in.tensor(1);
  requireOuterDim(in.fixed(2, 0), v);
  if (v.dtype != g.dtype) refuse("weight norm: v and g must share a dtype");
  in.contiguous(v.sizes(), v);
  TensorSpec norms = in.viewOf(g);
  norms.offset = 0;
  norms.dtype = statisticsDType(v, {}) == DType::Float64 ? DType::Float64 : DType::Float32;
  in.result(norms);
}

// (grad_w, saved_v, saved_g, saved_norms, dim)
void weightNormBackward(Infer& in) {
  const TensorType& v = in.tensor(1);
  const TensorType& g = in.tensor(2);
  if (!isContiguous(v) || !isContiguous(g) || !isContiguous(in.tensor(3)))
    refuse("weight norm: saved tensors are dense");
  requireOuterDim(in.fixed(4), v);
  statisticsDType(v, {});
  in.contiguous(v.sizes(), v);
  in.contiguous(g.sizes(), g);
}

}  // namespace

void addLayerNorms(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({"aten::" + schema, rule, Cost::Normalization, traits});
  };
  add("native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps)"
      " -> (Tensor, Tensor, Tensor)",
      layerNorm);
  add("native_layer_norm.out(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps, *,"
      " Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2) -> (Tensor(a!), Tensor(b!), Tensor(c!))",
      layerNorm, kCopiedOut);
  add("native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean, Tensor rstd,"
      " Tensor? weight, Tensor? bias, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      layerNormBackward);
  add("_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> (Tensor, Tensor)", rmsNorm);
  add("_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight,"
      " bool[2] output_mask) -> (Tensor, Tensor)",
      rmsNormBackward);
  add("native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group,"
      " float eps) -> (Tensor, Tensor, Tensor)",
      groupNorm);
  add("native_group_norm.out(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group,"
      " float eps, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2) -> (Tensor(a!), Tensor(b!), Tensor(c!))",
      groupNorm, kCopiedOut);
  add("native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt N,"
      " SymInt C, SymInt HxW, int group, bool[3] output_mask) -> (Tensor, Tensor, Tensor)",
      groupNormBackward);
  add("_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)", weightNorm);
  add("_weight_norm_interface.out(Tensor v, Tensor g, int dim=0, *, Tensor(a!) out0, Tensor(b!) out1)"
      " -> (Tensor(a!), Tensor(b!))",
      weightNorm, kCopiedOut);
  add("native_layer_norm_backward.out(Tensor grad_out, Tensor input, SymInt[] normalized_shape, Tensor mean,"
      " Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask, *, Tensor(a!) out0, Tensor(b!) out1,"
      " Tensor(c!) out2) -> (Tensor(a!), Tensor(b!), Tensor(c!))",
      layerNormBackward, kCopiedOut);
  add("native_group_norm_backward.out(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, SymInt "
      "N,"
      " SymInt C, SymInt HxW, int group, bool[3] output_mask, *, Tensor(a!) out0, Tensor(b!) out1, Tensor(c!) out2)"
      " -> (Tensor(a!), Tensor(b!), Tensor(c!))",
      groupNormBackward, kCopiedOut);
  add("_weight_norm_interface_backward.out(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor saved_norms, int dim, "
      "*,"
      " Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))",
      weightNormBackward, kCopiedOut);
  add("_weight_norm_interface_backward(Tensor grad_w, Tensor saved_v, Tensor saved_g, Tensor saved_norms, int dim)"
      " -> (Tensor, Tensor)",
      weightNormBackward);
}

}  // namespace saker::ops
