// Moments and norms: variances, vector norms, logsumexp, renorm, histograms of one tensor.
#include <cmath>

#include "ops/accept.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/promote.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

void requireFloating(const Infer& in, DType dtype) { require(in, kFloating | kHalfComplex, dtype); }

// (self, dim=None, *, correction, keepdim) and (self, dim, unbiased, keepdim): the correction changes values only.
template <bool withMean>
void variance(Infer& in) {
  const TensorType& self = in.tensor(0);
  requireFloating(in, self.dtype);
  uint64_t dims = reducedDims(in, 1, self.rank);
  DType dtype = ir::toReal(self.dtype);
  if constexpr (!withMean) {
    std::optional<DType> out = outDType(in);
    if (out && ir::isComplex(*out) && !ir::isComplex(self.dtype))
      refuse("a variance does not fit into a complex tensor");
  }
  Dims sizes = reducedSizes(self, dims, in.boolean(3));
  in.contiguous(sizes, dtype, self.device);
  if constexpr (withMean) in.contiguous(sizes, self);
}

// The orders for which nothing has no norm: infinite and negative ones.
void requireNormable(const Infer& in, const TensorType& self, uint64_t dims, double order) {
  if (order < 0 || std::isinf(order)) requireElements(in, self, dims);
}

double orderOf(const Infer& in, size_t argument) {
  if (!in.given(argument)) return 2;
  Scalar order = in.scalar(argument);
  if (order.kind == Scalar::Kind::Complex) refuse("the order of a norm must be real");
  return order.known ? order.number : 2;
}

// A computation's dtype may widen the input's, never narrow it, and must be of its kind.
DType normDType(const Infer& in, DType self, std::optional<DType> dtype) {
  requireFloating(in, self);
  if (!dtype) return ir::toReal(self);
  requireFloating(in, *dtype);
  if (ir::isComplex(*dtype) != ir::isComplex(self)) refuse("a norm's dtype must be of the input's kind");
  if (promoteTypes(self, *dtype) != *dtype) refuse("a norm's dtype must not be narrower than the input's");
  return ir::toReal(*dtype);
}

// (self, ord, dim, keepdim, *, dtype)
void vectorNorm(Infer& in) {
  const TensorType& self = in.tensor(0);
  DType dtype = normDType(in, self.dtype, in.dtype(4));
  uint64_t dims = reducedDims(in, 2, self.rank);
  requireNormable(in, self, dims, orderOf(in, 1));
  reduceTo(in, self, dims, in.boolean(3), dtype);
}

// The same without the root, and without its conditions.
void powerSum(Infer& in) {
  const TensorType& self = in.tensor(0);
  requireFloating(in, self.dtype);
  DType dtype = in.dtype(4).value_or(self.dtype);
  requireFloating(in, dtype);
  orderOf(in, 1);
  reduceTo(in, self, reducedDims(in, 2, self.rank), in.boolean(3), ir::toReal(dtype));
}

// The older forms of the norm: (self, p), (self, p, *, dtype), (self, p, dim, keepdim) and with dtype.
template <bool hasDims, int dtypeArgument>
void norm(Infer& in) {
  const TensorType& self = in.tensor(0);
  std::optional<DType> given;
  if constexpr (dtypeArgument >= 0) given = in.dtype(dtypeArgument);
  if (given && (ir::isComplex(*given) || ir::isComplex(self.dtype))) refuse("norm takes no dtype for complex numbers");
  DType dtype = normDType(in, self.dtype, given);
  uint64_t dims = hasDims ? reducedDims(in, 2, self.rank) : allDims(self.rank);
  requireNormable(in, self, dims, orderOf(in, 1));
  reduceTo(in, self, dims, hasDims && in.boolean(3), dtype);
}

// (self, dim, keepdim)
void logSumExp(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, kFloating, toFloating(in.context(), self.dtype));
  bool keep = in.boolean(2);
  const Arg& list = in.arg(1);
  if (list.isList() && list.toList().empty() && self.rank > 0 && !keep && !isEmpty(self)) {
    refuse("logsumexp: an empty list of dimensions");
  }
  DType dtype = outDType(in).value_or(toFloating(in.context(), self.dtype));
  require(in, kFloating, dtype);
  reduceTo(in, self, reducedDims(in, 1, self.rank), keep, dtype);
}

// The norm of a difference: (self, other, p)
void distance(Infer& in) {
  const TensorType& self = in.tensor(0);
  const TensorType& other = in.tensor(1);
  const TensorType* both[] = {&self, &other};
  DType dtype = resultType(in.context(), both);
  requireFloating(in, dtype);
  double order = orderOf(in, 2);
  Dims sizes = broadcast(self.sizes(), other.sizes());
  if (order < 0 || std::isinf(order)) {
    for (Int size : sizes) {
      if (size == Int(0)) refuse("dist: no elements");
    }
  }
  in.contiguous({}, ir::toReal(dtype), commonDevice(both));
}

// (self, p, dim, maxnorm)
void renorm(Infer& in) {
  const TensorType& self = in.tensor(0);
  Scalar p = in.scalar(1), limit = in.scalar(3);
  if (p.kind == Scalar::Kind::Complex || limit.kind == Scalar::Kind::Complex) refuse("renorm: p and maxnorm are real");
  if (p.known && p.number <= 0) refuse("renorm: p must be positive");
  if (limit.known && limit.number < 0) refuse("renorm: maxnorm must not be negative");
  if (self.rank < 2) refuse("renorm needs two dimensions or more");
  wrapDim(in.fixed(2), self.rank);
  require(in, kFloating, self.dtype);
  in.contiguous(self.sizes(), self);
}

// (self, bins, min, max); CUDA counts integers, but no halves.
void histc(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, self.device.type == DeviceType::CPU ? kFloats : kInts | kFull, self.dtype);
  Int bins = in.integer(1, 100);
  if (bins < Int(1)) refuse("histc: bins must be positive");
  Scalar low = in.scalar(2), high = in.scalar(3);
  if (low.known && high.known && low.number > high.number) refuse("histc: max must not be below min");
  in.contiguous(Dims{bins}, self);
}

}  // namespace

void addMomentsAndNorms(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({"aten::" + schema, rule, Cost::Reduction, traits});
  };
  for (std::string name : {"var", "std"}) {
    std::string arguments = "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False";
    add(name + ".correction" + arguments + ") -> Tensor", variance<false>);
    add(name + ".correction_out" + arguments + ", Tensor(a!) out) -> Tensor(a!)", variance<false>);
    add(name + "_mean.correction" + arguments + ") -> (Tensor, Tensor)", variance<true>);
    add(name + "_mean.correction_out" + arguments + ", Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))",
        variance<true>, kExactOut);
    arguments = "(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False";
    add(name + ".dim" + arguments + ") -> Tensor", variance<false>);
    add(name + ".out" + arguments + ", *, Tensor(a!) out) -> Tensor(a!)", variance<false>);
    add(name + "_mean.dim" + arguments + ") -> (Tensor, Tensor)", variance<true>);
  }
  add("linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)"
      " -> Tensor",
      vectorNorm);
  add("linalg_vector_norm.out(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? "
      "dtype=None,"
      " Tensor(a!) out) -> Tensor(a!)",
      vectorNorm, kExactOut);
  add("linalg__powsum(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None)"
      " -> Tensor",
      powerSum);
  add("norm.Scalar(Tensor self, Scalar p=2) -> Tensor", norm<false, -1>);
  add("norm.Scalar_out(Tensor self, Scalar p=2, *, Tensor(a!) out) -> Tensor(a!)", norm<false, -1>, kExactOut);
  add("norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor", norm<false, 2>);
  add("norm.ScalarOpt_dtype_out(Tensor self, Scalar? p, *, ScalarType dtype, Tensor(a!) out) -> Tensor(a!)",
      norm<false, 2>, kExactOut);
  add("norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor", norm<true, -1>);
  add("norm.out(Tensor self, Scalar? p, int[1] dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)",
      norm<true, -1>, kExactOut);
  add("norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype) -> Tensor",
      norm<true, 4>);
  add("norm.dtype_out(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, ScalarType dtype, Tensor(a!) out)"
      " -> Tensor(a!)",
      norm<true, 4>, kExactOut);
  add("logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", logSumExp);
  add("logsumexp.out(Tensor self, int[1] dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)", logSumExp,
      kExactOut);
  add("dist(Tensor self, Tensor other, Scalar p=2) -> Tensor", distance);
  add("dist.out(Tensor self, Tensor other, Scalar p=2, *, Tensor(a!) out) -> Tensor(a!)", distance, kExactOut);
  add("renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor", renorm);
  add("renorm_(Tensor(a!) self, Scalar p, int dim, Scalar maxnorm) -> Tensor(a!)", renorm);
  add("renorm.out(Tensor self, Scalar p, int dim, Scalar maxnorm, *, Tensor(a!) out) -> Tensor(a!)", renorm, kExactOut);
  // Without a range the data gives it, and may not have a finite one.
  add("histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", histc, kFailsOnData);
  add("histc.out(Tensor self, int bins=100, Scalar min=0, Scalar max=0, *, Tensor(a!) out) -> Tensor(a!)", histc,
      kFailsOnData | kExactOut);
}

}  // namespace saker::ops
