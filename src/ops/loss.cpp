// Losses that compare two tensors element by element, and their derivatives.
#include <string>

#include "ops/pointwise.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

enum class Reduction { None = 0, Mean = 1, Sum = 2 };

Reduction reduction(const Infer& in, size_t i) {
  int64_t value = in.fixed(i, 1);
  if (value < 0 || value > 2) refuse("a reduction is 0 (none), 1 (mean) or 2 (sum)");
  return static_cast<Reduction>(value);
}

void number(Infer& in, const TensorType& like, DType dtype) { in.contiguous({}, dtype, like.device); }

// `index` is the argument that says how the result is reduced.
template <size_t index>
void broadcastLoss(Infer& in) {
  const TensorType* both[] = {&in.tensor(0), &in.tensor(1)};
  DType dtype = resultType(in.context(), both);
  require(in, kFloats, dtype);
  if (reduction(in, index) == Reduction::None) return elementwiseResult(in, both, dtype, dtype);
  broadcast(both[0]->sizes(), both[1]->sizes());
  in.contiguous({}, dtype, commonDevice(both));
}

void smoothL1(Infer& in) {
  if (in.number(3, 1) < 0) refuse("smooth_l1_loss needs a beta of at least 0");
  broadcastLoss<2>(in);
}

// Computed into a tensor like the input.
void huber(Infer& in) {
  const TensorType &x = in.tensor(0), &target = in.tensor(1);
  if (!(in.number(3, 1) > 0)) refuse("huber_loss needs a delta above 0");
  const TensorType* both[] = {&x, &target};
  DType computed = resultType(in.context(), both);
  require(in, kFloats, computed);
  if (!canCast(computed, x.dtype)) refuse("the loss does not fit into the dtype of the input");
  if (!sameSizes(broadcast(x.sizes(), target.sizes()), x.sizes())) unsupported("huber_loss of a larger target");
  commonDevice(both);
  if (reduction(in, 2) == Reduction::None) return likeResult(in, x, x.dtype);
  number(in, x, x.dtype);
}

void requireEqualInputs(Infer& in, const TensorType& x, const TensorType& target) {
  if (x.dtype != target.dtype) refuse(in.op().qualified + " of tensors of different dtypes");
  require(in, kFloats, x.dtype);
  if (!sameSizes(x.sizes(), target.sizes())) unsupported(in.op().qualified + " of tensors of different shapes");
  const TensorType* both[] = {&x, &target};
  commonDevice(both);
}

// Multiplied into the loss in place.
void requireWeight(Infer& in, const TensorType* weight, IntSpan sizes, DType dtype) {
  if (!weight) return;
  if (!sameSizes(broadcast(sizes, weight->sizes()), sizes)) refuse("the weights are larger than the loss");
  if (!canCast(promoteTypes(weight->dtype, dtype), dtype)) refuse("the weights are of a wider kind than the loss");
  require(in, kBool | kReal, weight->dtype);
}

void binaryCrossEntropy(Infer& in) {
  const TensorType& x = in.tensor(0);
  requireEqualInputs(in, x, in.tensor(1));
  requireWeight(in, in.optionalTensor(2), x.sizes(), x.dtype);
  if (reduction(in, 3) == Reduction::None) return likeResult(in, x, x.dtype);
  number(in, x, x.dtype);
}

void binaryCrossEntropyBackward(Infer& in) {
  const TensorType &gradient = in.tensor(0), &x = in.tensor(1);
  requireEqualInputs(in, x, in.tensor(2));
  if (gradient.dtype != x.dtype) refuse("a gradient of another dtype than the input");
  broadcast(x.sizes(), gradient.sizes());
  requireWeight(in, in.optionalTensor(3), x.sizes(), x.dtype);
  likeResult(in, x, x.dtype);
}

// Computed into 1 - target, so shape and dtype are the target's.
void crossEntropyWithLogits(Infer& in) {
  const TensorType &x = in.tensor(0), &target = in.tensor(1);
  require(in, kFloats, x.dtype);
  require(in, kFloats, target.dtype);
  const TensorType* both[] = {&x, &target};
  commonDevice(both);
  if (!sameSizes(broadcast(x.sizes(), target.sizes()), target.sizes())) refuse("the input is larger than the target");
  requireWeight(in, in.optionalTensor(2), target.sizes(), target.dtype);
  if (const TensorType* positive = in.optionalTensor(3)) {
    require(in, kReal, positive->dtype);
    Dims sizes = broadcast(positive->sizes(), target.sizes());
    if (!sameSizes(broadcast(sizes, x.sizes()), x.sizes())) refuse("pos_weight is larger than the input");
  }
  if (reduction(in, 4) == Reduction::None) {
    TensorSpec one;
    one.dtype = DType::Int64;
    one.flags.wrappedNumber = true;
    return elementwiseResult(in, {in.context().types().tensor(one), &target}, target.dtype);
  }
  number(in, target, target.dtype);
}

// Computed into the negative of the input.
void softMargin(Infer& in) {
  const TensorType &x = in.tensor(0), &target = in.tensor(1);
  const TensorType* both[] = {&x, &target};
  commonDevice(both);
  require(in, kFloating, x.dtype);
  if (!canCast(resultType(in.context(), both), x.dtype)) refuse("the target is of a wider kind than the input");
  if (!sameSizes(broadcast(x.sizes(), target.sizes()), x.sizes())) refuse("the target is larger than the input");
  if (reduction(in, 2) == Reduction::None) return elementwiseResult(in, {&x}, x.dtype);
  number(in, x, x.dtype);
}

void softMarginBackward(Infer& in) {
  const TensorType &gradient = in.tensor(0), &x = in.tensor(1), &target = in.tensor(2);
  if (x.dtype != target.dtype || gradient.dtype != x.dtype) unsupported("soft_margin_loss_backward of mixed dtypes");
  require(in, kFloating, x.dtype);
  if (!sameSizes(x.sizes(), target.sizes())) unsupported("soft_margin_loss_backward with broadcasting");
  if (!sameSizes(broadcast(x.sizes(), gradient.sizes()), x.sizes())) refuse("the gradient is larger than the input");
  const TensorType* product[] = {&target, &x};
  TensorSpec exponential(x);
  exponential.strides = elementwise(product).strides;
  elementwiseResult(in, {&target, in.context().types().tensor(exponential)}, x.dtype);
}

// Row-major like the input, from tensors that broadcast to it.
void lossBackward(Infer& in, uint16_t accepted, bool promotes) {
  const TensorType* all[] = {&in.tensor(1), &in.tensor(2), &in.tensor(0)};
  const TensorType& x = *all[0];
  DType computed = resultType(in.context(), all);
  if (promotes && ir::isIntegral(computed, true)) unsupported(in.op().qualified + " of integers");
  require(in, accepted, computed);
  Dims sizes(x.sizes());
  for (const TensorType* t : all) {
    if (!promotes && t->dtype != x.dtype) refuse(in.op().qualified + " of tensors of different dtypes");
    sizes = broadcast(sizes, t->sizes());
  }
  if (!canCast(computed, x.dtype)) refuse("the gradient does not fit into the dtype of the input");
  if (!sameSizes(sizes, x.sizes())) unsupported(in.op().qualified + " of a larger target");
  commonDevice(all);
  in.contiguous(x.sizes(), x);
}

void promotedBackward(Infer& in) { lossBackward(in, kFloats, true); }
void huberBackward(Infer& in) {
  if (!(in.number(4) > 0)) refuse("huber_loss needs a delta above 0");
  lossBackward(in, kFloats, false);
}

}  // namespace

void addLoss(Rows& rows) {
  Forms loss{.inplace = false};
  Forms copied{.inplace = false, .outTraits = kCopiedOut};
  Forms none{.inplace = false, .out = ""};
  std::string pair = "(Tensor self, Tensor target, ", gradient = "(Tensor grad_output, Tensor self, Tensor target, ";
  addForms(rows, "mse_loss" + pair + "int reduction=1)", broadcastLoss<2>, loss);
  addForms(rows, "smooth_l1_loss" + pair + "int reduction=1, float beta=1.)", smoothL1, loss);
  addForms(rows, "huber_loss" + pair + "int reduction=1, float delta=1.)", huber, none);
  addForms(rows, "binary_cross_entropy" + pair + "Tensor? weight=None, int reduction=1)", binaryCrossEntropy, none,
           kFailsOnData);
  addForms(rows,
           "binary_cross_entropy_with_logits" + pair + "Tensor? weight=None, Tensor? pos_weight=None, int reduction=1)",
           crossEntropyWithLogits, copied);
  addForms(rows, "soft_margin_loss" + pair + "int reduction=1)", softMargin,
           {.inplace = false, .outTraits = kExactOut});

  addForms(rows, "mse_loss_backward" + gradient + "int reduction)", promotedBackward, none);
  addForms(rows, "smooth_l1_loss_backward" + gradient + "int reduction, float beta)", promotedBackward, none);
  addForms(rows, "huber_loss_backward" + gradient + "int reduction, float delta)", huberBackward, none);
  addForms(rows, "binary_cross_entropy_backward" + gradient + "Tensor? weight=None, int reduction=1)",
           binaryCrossEntropyBackward, none);
  addForms(rows, "soft_margin_loss_backward" + gradient + "int reduction)", softMarginBackward, none);
}

}  // namespace saker::ops
