// Derivatives of activation functions.
#include <string>

#include "ops/pointwise.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

// `first` and `second` in the order in which their strides count.
template <uint16_t accepted, size_t first = 0, size_t second = 1>
void backwardWithNumbers(Infer& in) {
  const TensorType* both[] = {&in.tensor(first), &in.tensor(second)};
  requireNumbersFit(in, resultType(in.context(), both));
  binaryResult(in, *both[0], *both[1], accepted);
}

void eluBackward(Infer& in) {
  if (in.boolean(4) && in.number(1) < 0) refuse("elu with a negative slope has no derivative from its result");
  backwardWithNumbers<kFloats, 0, 5>(in);
}

void leakyReluBackward(Infer& in) {
  if (in.boolean(3) && in.number(2) < 0) refuse("leaky_relu with a negative slope has no derivative from its result");
  backwardWithNumbers<kFloats, 1, 0>(in);
}

void shrinkBackward(Infer& in) {
  binary<kFloats>(in);
  const TensorType* both[] = {&in.tensor(0), &in.tensor(1)};
  requireFits(in, 2, resultType(in.context(), both));
}

void geluBackward(Infer& in) {
  if (in.given(2) && in.string(2) != "none" && in.string(2) != "tanh") refuse("gelu knows none and tanh");
  binary<kFloats>(in);
}

// Stored in the dtype of the input.
void mishBackward(Infer& in) {
  const TensorType* both[] = {&in.tensor(0), &in.tensor(1)};
  DType computed = resultType(in.context(), both), dtype = both[1]->dtype;
  require(in, kFloats, computed);
  if (!canCast(computed, dtype)) refuse("the gradient does not fit into the dtype of the input");
  elementwiseResult(in, both, dtype, computed);
}

void logSigmoidBackward(Infer& in) {
  const TensorType &gradient = in.tensor(0), &x = in.tensor(1), &buffer = in.tensor(2);
  if (gradient.dtype != x.dtype || buffer.dtype != x.dtype) refuse("log_sigmoid_backward of different dtypes");
  bool usesBuffer = x.device.type == DeviceType::CPU;
  if (!sameSizes(gradient.sizes(), x.sizes()) || (usesBuffer && !sameSizes(buffer.sizes(), x.sizes()))) {
    unsupported("log_sigmoid_backward with broadcasting");
  }
  require(in, kFloats, x.dtype);
  likeResult(in, gradient, gradient.dtype);
}

void gluBackward(Infer& in) {
  const TensorType &gradient = in.tensor(0), &x = in.tensor(1);
  if (x.rank == 0) refuse("glu of a tensor without dimensions");
  size_t dim = static_cast<size_t>(wrapDim(in.fixed(2), x.rank));
  if (x.size(dim) % Int(2) != Int(0)) refuse("glu halves a dimension of an odd size");
  require(in, kFloats, x.dtype);
  Dims half(x.sizes());
  half[dim] = x.size(dim) / Int(2);
  if (!sameSizes(gradient.sizes(), half)) unsupported("glu_backward with broadcasting");
  if (gradient.dtype != x.dtype) refuse("glu_backward of tensors of different dtypes");
  in.contiguous(x.sizes(), x);
}

void preluBackward(Infer& in) {
  const TensorType &gradient = in.tensor(0), &x = in.tensor(1), &weight = in.tensor(2);
  if (x.dtype != weight.dtype || x.dtype != gradient.dtype) refuse("prelu_backward of tensors of different dtypes");
  require(in, kFloats, x.dtype);
  for (int i = 0; i < 2; ++i) elementwiseResult(in, {&x, &weight, &gradient}, x.dtype);
}

// Training multiplies by the noise, otherwise it is leaky_relu's.
void rreluBackward(Infer& in) {
  if (in.boolean(5)) return binary < kAll | kHalfComplex | kWideInts, Gives::Common, 2, 0 > (in);
  bool negative = in.number(3) + in.number(4) < 0;
  if (in.boolean(6) && negative) refuse("rrelu with a negative slope has no derivative from its result");
  backwardWithNumbers<kFloats, 1, 0>(in);
}

void dropoutBackward(Infer& in) {
  const TensorType* both[] = {&in.tensor(0), &in.tensor(1)};
  DType product = resultType(in.context(), both), dtype = toFloating(in.context(), product);
  require(in, kFloating | kHalfComplex, dtype);
  elementwiseResult(in, both, dtype, product);
}

}  // namespace

void addActivationBackward(Rows& rows) {
  Forms usual{.inplace = false, .out = "grad_input", .outArgument = "grad_input"};
  Forms copied{.inplace = false, .outTraits = kCopiedOut};
  Forms none{.inplace = false, .out = ""};
  for (std::string name : {"sigmoid_backward", "tanh_backward"}) {
    addForms(rows, name + "(Tensor grad_output, Tensor output)", binary<kFloating>, usual);
  }
  addForms(rows, "silu_backward(Tensor grad_output, Tensor self)", binary<kFloating>, usual);
  addForms(rows, "hardsigmoid_backward(Tensor grad_output, Tensor self)", binary<kFloats>, usual);
  addForms(rows, "hardswish_backward(Tensor grad_output, Tensor self)", binary<kFloats>, copied);
  addForms(rows, "mish_backward(Tensor grad_output, Tensor self)", mishBackward, none);
  addForms(rows, "logit_backward(Tensor grad_output, Tensor self, float? eps=None)", binary<kFloats>, usual);
  addForms(rows, "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold)",
           backwardWithNumbers<kReal, 1, 0>, usual);
  addForms(rows, "gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\")", geluBackward, none);
  addForms(rows,
           "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool is_result, Tensor "
           "self_or_result)",
           eluBackward, usual);
  addForms(rows, "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, bool self_is_result)",
           leakyReluBackward, usual);
  addForms(rows, "hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val)",
           backwardWithNumbers<kFloats>, usual);
  addForms(rows, "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold)",
           backwardWithNumbers<kFloats>, usual);
  addForms(rows, "hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd)", shrinkBackward, usual);
  addForms(rows, "softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd)", shrinkBackward, usual);
  addForms(rows, "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer)", logSigmoidBackward, none);
  addForms(rows, "glu_backward(Tensor grad_output, Tensor self, int dim)", gluBackward, none);
  addForms(rows,
           "rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, Scalar upper, bool "
           "training, bool self_is_result)",
           rreluBackward, copied);
  addForms(rows, "native_dropout_backward(Tensor grad_output, Tensor mask, float scale)", dropoutBackward, copied);
  rows.push_back({"aten::_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
                  preluBackward, Cost::Pointwise});
}

}  // namespace saker::ops
