// Operators of three tensors, or of a tensor and two numbers, element by element.
#include "ops/pointwise.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

void requireBound(bool any) {
  if (!any) refuse("clamp needs a lower or an upper bound");
}

// Numbers as bounds. They promote integers only; a float stays what it is.
template <size_t last>
void clamp(Infer& in) {
  const TensorType& x = in.tensor(0);
  requireBound(in.given(1) || (last > 1 && in.given(2)));
  DType dtype = x.dtype;
  if (!ir::isFloat(dtype)) {
    SmallVec<const TensorType*, 4> all;
    all.push_back(&x);
    for (size_t i = 1; i <= last; ++i) {
      if (in.given(i)) all.push_back(&in.wrapped(i));
    }
    dtype = resultType(in.context(), all);
  }
  require(in, clampable(in, kReal), dtype);
  for (size_t i = 1; i <= last; ++i) {
    if (!in.given(i)) continue;
    if (last == 1 && in.scalar(i).kind == Scalar::Kind::Complex) refuse("a complex bound");
    requireBoundFits(in, i, dtype);
  }
  elementwiseResult(in, {&converted(in, x, dtype)}, dtype);
}

void clampByTensors(Infer& in) {
  const TensorType* all[] = {&in.tensor(0), in.optionalTensor(1), in.optionalTensor(2)};
  requireBound(all[1] || all[2]);
  DType dtype = resultType(in.context(), all);
  require(in, clampable(in, all[1] && all[2] ? kReal : kReal | kBool), dtype);
  elementwiseResult(in, all, dtype, dtype);
}

void where(Infer& in) {
  const TensorType &condition = in.tensor(0), &a = in.tensor(1), &b = in.tensor(2);
  if (condition.dtype != DType::Bool && condition.dtype != DType::UInt8) refuse("where needs a bool condition");
  const TensorType* choices[] = {&a, &b};
  DType dtype = resultType(in.context(), choices);
  elementwiseResult(in, {&converted(in, condition, DType::Bool), &converted(in, a, dtype), &converted(in, b, dtype)},
                    dtype);
}

void lerpByTensor(Infer& in) {
  const TensorType &start = in.tensor(0), &end = in.tensor(1), &weight = in.tensor(2);
  if (start.dtype != end.dtype) refuse("lerp between tensors of different dtypes");
  if (weight.rank > 0 && weight.dtype != start.dtype) refuse("lerp needs weights of the dtype of the tensors");
  const TensorType* all[] = {&start, &end, &weight};
  DType dtype = resultType(in.context(), all);
  require(in, kFloating, dtype);
  elementwiseResult(in, all, dtype, dtype);
}

void lerpByNumber(Infer& in) {
  const TensorType &start = in.tensor(0), &end = in.tensor(1);
  if (start.dtype != end.dtype) refuse("lerp between tensors of different dtypes");
  binaryResult(in, start, end, kFloating);
  if (in.scalar(2).kind == Scalar::Kind::Complex) requireFits(in, 2, start.dtype);
}

template <bool divides>
void addProduct(Infer& in) {
  const TensorType* all[] = {&in.tensor(0), &in.tensor(1), &in.tensor(2)};
  if (divides && ir::isIntegral(all[1]->dtype, true) && ir::isIntegral(all[2]->dtype, true)) {
    refuse("addcdiv of integers");
  }
  DType dtype = resultType(in.context(), all);
  require(in, divides ? kFloating : kNumbers | kHalfComplex, dtype);
  // Half numbers are computed as floats.
  bool half = dtype == DType::Float16 || dtype == DType::BFloat16;
  if (in.given(3)) requireFits(in, 3, half ? DType::Float32 : dtype);
  elementwiseResult(in, all, dtype, dtype);
}

void requireMask(Infer& in, const TensorType& self, const TensorType& mask) {
  require(in, kAll | kHalfComplex | kBComplex, self.dtype);
  if (mask.dtype != DType::Bool) refuse("masked_fill needs a bool mask");
  if (mask.device != self.device) refuse("masked_fill needs the mask on the device of the tensor");
  if (in.op().parsed.arguments[2].type.base == ir::SchemaType::Base::Scalar) {
    requireFits(in, 2, self.dtype);
  } else if (in.tensor(2).rank != 0) {
    refuse("masked_fill needs a value without dimensions");
  }
}

void maskedFill(Infer& in) {
  const TensorType &self = in.tensor(0), &mask = in.tensor(1);
  requireMask(in, self, mask);
  in.contiguous(broadcast(self.sizes(), mask.sizes()), self);
}

// May write one element several times: all get the same value.
void maskedFillInplace(Infer& in) {
  const TensorType &self = in.tensor(0), &mask = in.tensor(1);
  requireMask(in, self, mask);
  if (!sameSizes(broadcast(self.sizes(), mask.sizes()), self.sizes())) refuse("the mask is larger than the tensor");
  in.result(self);
}

void addMaskedFill(Rows& rows, const std::string& name, const std::string& value, uint32_t traits) {
  std::string signature = name + "(Tensor self, Tensor mask, " + value + " value)";
  std::string out = value == "Scalar" ? "Scalar_out" : "Tensor_out";
  addForms(rows, signature, maskedFill, {.inplace = false, .out = out, .outTraits = kCopiedOut}, traits);
  addForms(rows, signature, maskedFillInplace, {.functional = false, .out = ""}, traits | kOwnWrites);
}

}  // namespace

void addTernary(Rows& rows) {
  Forms exact{.outTraits = kExactOut};
  addForms(rows, "clamp(Tensor self, Scalar? min=None, Scalar? max=None)", clamp<2>, exact);
  addForms(rows, "clamp_min(Tensor self, Scalar min)", clamp<1>, exact);
  addForms(rows, "clamp_max(Tensor self, Scalar max)", clamp<1>, exact);
  Forms tensors{.out = "Tensor_out"};
  addForms(rows, "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None)", clampByTensors, tensors);
  addForms(rows, "clamp_min.Tensor(Tensor self, Tensor min)", extremeOfTwo, tensors);
  addForms(rows, "clamp_max.Tensor(Tensor self, Tensor max)", extremeOfTwo, tensors);
  addForms(rows, "where.self(Tensor condition, Tensor self, Tensor other)", where,
           {.inplace = false, .out = "self_out", .outTraits = kExactOut});
  addForms(rows, "lerp.Tensor(Tensor self, Tensor end, Tensor weight)", lerpByTensor,
           {.out = "Tensor_out", .outTraits = kExactOut});
  addForms(rows, "lerp.Scalar(Tensor self, Tensor end, Scalar weight)", lerpByNumber, {.out = "Scalar_out"});
  addForms(rows, "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1)", addProduct<false>);
  addForms(rows, "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1)", addProduct<true>);
  addMaskedFill(rows, "masked_fill.Scalar", "Scalar", kNone);
  addMaskedFill(rows, "masked_fill.Tensor", "Tensor", kFailsOnData);
}

}  // namespace saker::ops
