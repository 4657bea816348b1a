// Activation functions.
#include <cmath>
#include <string>

#include "ir/torch_facts.h"
#include "ops/pointwise.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

void celu(Infer& in) {
  if (in.given(1) && in.number(1) == 0) refuse("celu needs an alpha that is not 0");
  unaryWithNumbers<kFloats>(in);
}

void gelu(Infer& in) {
  if (in.given(1) && in.string(1) != "none" && in.string(1) != "tanh") refuse("gelu knows none and tanh");
  unary<kFloats>(in);
}

void relu(Infer& in) { unaryResult(in, in.tensor(0), clampable(in, kReal)); }

// The bounds of integers are rounded, and do not promote.
void hardtanh(Infer& in) {
  const TensorType& x = in.tensor(0);
  require(in, clampable(in, kReal), x.dtype);
  bool aboveZero = x.dtype == DType::UInt8 && !in.context().ambient().torch->clampTakesIntegers;
  for (size_t i = 1; i <= 2; ++i) {
    if (!in.given(i)) continue;
    bool integral = ir::isIntegral(x.dtype, false);
    if (aboveZero && in.number(i) <= -1) refuse("hardtanh of an unsigned type with negative bounds");
    if (integral) requireFits(in, i, DType::Int64);
    requireBoundFits(in, i, x.dtype);
  }
  if (aboveZero && !in.given(1)) refuse("hardtanh of an unsigned type with negative bounds");
  if (in.op().variant == Variant::Out) return elementwiseResult(in, {&x}, x.dtype);
  likeResult(in, x, x.dtype);
}

void hardshrink(Infer& in) {
  if (in.given(1)) requireFits(in, 1, in.tensor(0).dtype);
  unary<kFloats>(in);
}

void softshrink(Infer& in) {
  if (in.given(1)) {
    double lambda = in.number(1);
    if (!(lambda >= 0) || std::isinf(lambda)) refuse("softshrink needs a finite lambda of at least 0");
    requireFits(in, 1, in.tensor(0).dtype);
  }
  unary<kFloats>(in);
}

// Compares with one number and writes another.
void threshold(Infer& in) {
  const TensorType& x = in.tensor(0);
  require(in, kReal, x.dtype);
  requireNumbersFit(in, x.dtype);
  if (in.op().variant == Variant::Inplace) return in.result(x);  // may write one element several times
  elementwiseResult(in, {&x}, x.dtype);
}

// The first half of a dimension times the sigmoid of the second.
void glu(Infer& in) {
  const TensorType& x = in.tensor(0);
  if (x.rank == 0) refuse("glu of a tensor without dimensions");
  size_t dim = static_cast<size_t>(wrapDim(in.fixed(1, -1), x.rank));
  if (x.size(dim) % Int(2) != Int(0)) refuse("glu halves a dimension of an odd size");
  require(in, kFloats, x.dtype);
  TensorSpec half(x);
  half.sizes[dim] = x.size(dim) / Int(2);
  if (isRowMajor(x)) return in.contiguous(half.sizes, x);
  const TensorType* part = in.context().types().tensor(half);
  elementwiseResult(in, {part, part}, x.dtype);
}

void logSigmoid(Infer& in) {
  const TensorType& x = in.tensor(0);
  require(in, kFloats, x.dtype);
  in.contiguous(x.sizes(), x);
  // CUDA kernels need no buffer.
  Int none = 0;
  if (x.device.type == DeviceType::CPU)
    in.contiguous(x.sizes(), x);
  else
    in.contiguous(std::span<const Int>(&none, 1), x);
}

void prelu(Infer& in) {
  const TensorType &x = in.tensor(0), &weight = in.tensor(1);
  if (x.dtype != weight.dtype) refuse("prelu needs weights of the dtype of the tensor");
  require(in, kFloats, x.dtype);
  if (!sameSizes(broadcast(x.sizes(), weight.sizes()), x.sizes())) unsupported("prelu with weights of a larger shape");
  const TensorType* both[] = {&x, &weight};
  commonDevice(both);
  likeResult(in, x, x.dtype);
}

// Training writes the noise and needs a kernel that draws.
const TensorType& rreluInput(Infer& in) {
  const TensorType &x = in.tensor(0), &noise = in.tensor(1);
  if (!sameSizes(x.sizes(), noise.sizes())) refuse("rrelu needs noise of the shape of the tensor");
  bool training = in.boolean(4);
  if (!training || x.dtype != DType::BFloat16) require(in, training ? kFull : kFloats, x.dtype);
  requireNumbersFit(in, x.dtype);
  if (training && noise.dtype != x.dtype) refuse("rrelu needs noise of the dtype of the tensor");
  return x;
}

void rrelu(Infer& in) { in.contiguous(rreluInput(in).sizes(), in.tensor(0)); }

void rreluInplace(Infer& in) {
  const TensorType& x = rreluInput(in);
  if (hasInternalOverlap(x)) refuse("several elements of the written tensor share one address");
  in.result(x);
}

void addParametric(Rows& rows) {
  rows.push_back({"aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor", prelu, Cost::Pointwise});
  std::string more =
      "Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, Generator? generator=None";
  rows.push_back({"aten::rrelu_with_noise(Tensor self, Tensor(b!) noise, " + more + ") -> Tensor", rrelu,
                  Cost::Pointwise, kRandom | kOwnWrites});
  rows.push_back({"aten::rrelu_with_noise_(Tensor(a!) self, Tensor(b!) noise, " + more + ") -> Tensor(a!)",
                  rreluInplace, Cost::Pointwise, kRandom | kOwnWrites});
}

}  // namespace

void addActivation(Rows& rows) {
  Forms exact{.outTraits = kExactOut};
  Forms exactNoInplace{.inplace = false, .outTraits = kExactOut};
  addForms(rows, "relu(Tensor self)", relu, {.outTraits = kCopiedOut});
  addForms(rows, "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1)", unaryWithNumbers<kFloats>,
           exact);
  addForms(rows, "celu(Tensor self, Scalar alpha=1.)", celu, {.outTraits = kCopiedOut});
  addForms(rows, "leaky_relu(Tensor self, Scalar negative_slope=0.01)", unaryWithNumbers<kFloats>, exact);
  addForms(rows, "silu(Tensor self)", unary<kFloating>, exact);
  for (std::string name : {"hardsigmoid", "hardswish", "mish"}) {
    addForms(rows, name + "(Tensor self)", unary<kFloats>, exact);
  }
  addForms(rows, "gelu(Tensor self, *, str approximate=\"none\")", gelu, exact);
  addForms(rows, "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1)", hardtanh, exact);
  addForms(rows, "threshold(Tensor self, Scalar threshold, Scalar value)", threshold, {.inplace = false});
  addForms(rows, "threshold(Tensor self, Scalar threshold, Scalar value)", threshold, {.functional = false, .out = ""},
           kOwnWrites);
  addForms(rows, "softplus(Tensor self, Scalar beta=1, Scalar threshold=20)", unaryWithNumbers<kFloats>,
           exactNoInplace);
  addForms(rows, "hardshrink(Tensor self, Scalar lambd=0.5)", hardshrink, exactNoInplace);
  addForms(rows, "softshrink(Tensor self, Scalar lambd=0.5)", softshrink, exactNoInplace);
  addForms(rows, "glu(Tensor self, int dim=-1)", glu, {.inplace = false});
  rows.push_back(
      {"aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)", logSigmoid, Cost::Pointwise});
  rows.push_back(
      {"aten::log_sigmoid_forward.output(Tensor self, *, Tensor(a!) output, Tensor(b!) buffer) -> "
       "(Tensor(a!), Tensor(b!))",
       logSigmoid, Cost::Pointwise, kExactOut});
  addParametric(rows);
}

}  // namespace saker::ops
