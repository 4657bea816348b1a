// Softmax and its relatives.
#include "ops/accept.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

// (self, dim, half_to_float)
void softmax(Infer& in) {
  const TensorType& self = in.tensor(0);
  wrapDim(in.fixed(1), self.rank);
  DType dtype = self.dtype;
  if (in.boolean(2)) {
    if (self.device.type == DeviceType::CPU || dtype != DType::Float16)
      refuse("softmax: only CUDA widens half to float");
    dtype = DType::Float32;
  }
  require(in, kFloats, dtype);
  in.contiguous(self.sizes(), dtype, self.device);
}

// (grad_output, output, dim, input_dtype)
void softmaxBackward(Infer& in) {
  const TensorType& grad = in.tensor(0);
  const TensorType& output = in.tensor(1);
  if (!sameSizes(grad.sizes(), output.sizes())) refuse("softmax: the gradient is not of the output's shape");
  wrapDim(in.fixed(2), grad.rank);
  require(in, kFloats, grad.dtype);
  if (grad.dtype != output.dtype) refuse("softmax: the gradient is not of the output's dtype");
  DType dtype = grad.dtype;
  if (grad.dtype == DType::Float32 && in.dtype(3) == DType::Float16) {
    if (grad.device.type == DeviceType::CPU) refuse("softmax: only CUDA narrows the gradient to half");
    dtype = DType::Float16;
  }
  in.contiguous(grad.sizes(), dtype, grad.device);
}

// (self, dim, dtype)
void safeSoftmax(Infer& in) {
  const TensorType& self = in.tensor(0);
  wrapDim(in.fixed(1), self.rank);
  DType dtype = in.dtype(2).value_or(self.dtype);
  require(in, kFloats, dtype);
  if (ir::isComplex(self.dtype)) unsupported("_safe_softmax of complex numbers");
  in.contiguous(self.sizes(), dtype, self.device);
}

// (self, mask, dim, mask_type): the mask is (L, L) for type 0, (B, L) for type 1, else of the input's shape.
void maskedSoftmax(Infer& in) {
  const TensorType& self = in.tensor(0);
  const TensorType& mask = in.tensor(1);
  if (mask.dtype != DType::Bool) refuse("a mask must be boolean");
  int64_t type = in.fixed(3, 2);
  if (type == 0 || type == 1) {
    if (self.rank != 4 || mask.rank != 2) unsupported("a mask by sequence beside an input that is not (B, H, L, L)");
    Int rows = type == 0 ? self.size(2) : self.size(0);
    if (mask.size(0) != rows || mask.size(1) != self.size(2)) refuse("the mask is not of the shape its type says");
  } else if (!sameSizes(mask.sizes(), self.sizes())) {
    refuse("the mask is not of the input's shape");
  }
  if (in.given(2)) wrapDim(in.fixed(2), self.rank);
  require(in, kFloats, self.dtype);
  if (self.device.type != DeviceType::CPU) return in.contiguous(self.sizes(), self);
  likeResult(in, self, self.dtype);
}

// (grad_output, output, mask, dim)
void maskedSoftmaxBackward(Infer& in) {
  const TensorType& grad = in.tensor(0);
  const TensorType& mask = in.tensor(2);
  if (mask.dtype != DType::Bool) refuse("a mask must be boolean");
  if (!sameSizes(grad.sizes(), mask.sizes())) refuse("the mask is not of the gradient's shape");
  require(in, kFloats, grad.dtype);
  in.contiguous(grad.sizes(), grad);
}

}  // namespace

void addSoftmax(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({"aten::" + schema, rule, Cost::Normalization, traits});
  };
  for (std::string name : {"_softmax", "_log_softmax"}) {
    add(name + "(Tensor self, int dim, bool half_to_float) -> Tensor", softmax);
    add(name + ".out(Tensor self, int dim, bool half_to_float, *, Tensor(a!) out) -> Tensor(a!)", softmax, kExactOut);
    add(name + "_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
        softmaxBackward);
    std::string target = name == "_softmax" ? "grad_input" : "out";
    add(name + "_backward_data.out(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype, *, Tensor(a!) " +
            target + ") -> Tensor(a!)",
        softmaxBackward, kExactOut);
  }
  add("_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", safeSoftmax);
  add("_masked_softmax(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor", maskedSoftmax);
  add("_masked_softmax_backward(Tensor grad_output, Tensor output, Tensor mask, int? dim=None) -> Tensor",
      maskedSoftmaxBackward);
}

}  // namespace saker::ops
