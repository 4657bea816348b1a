// Reductions by addition and multiplication, and the boolean ones.
#include "ops/accept.h"
#include "ops/families.h"
#include "ops/promote.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

// Sums and products of integers are computed in int64, unless a dtype or out= says otherwise.
DType accumulated(const Infer& in, DType self, size_t dtypeArgument, bool followsOut) {
  if (std::optional<DType> dtype = in.dtype(dtypeArgument)) return *dtype;
  if (followsOut) {
    if (std::optional<DType> out = outDType(in)) return *out;
  }
  return ir::isIntegral(self, true) ? DType::Int64 : self;
}

void requireAddable(const Infer& in, const TensorType& self, DType dtype) {
  // CUDA sums complex32, too.
  require(in, self.device.type == DeviceType::CPU ? kAll : kAll | kHalfComplex, dtype);
}

// (self, *, dtype); their out= forms demand the dtype of the functional result.
void addAll(Infer& in) {
  const TensorType& self = in.tensor(0);
  DType dtype = accumulated(in, self.dtype, 1, false);
  requireAddable(in, self, dtype);
  in.contiguous({}, dtype, self.device);
}

// (self, dim, keepdim, *, dtype)
void addDims(Infer& in) {
  const TensorType& self = in.tensor(0);
  uint64_t dims = reducedDims(in, 1, self.rank);
  DType dtype = accumulated(in, self.dtype, 3, true);
  requireAddable(in, self, dtype);
  reduceTo(in, self, dims, in.boolean(2), dtype);
}

void addDimsSkippingNan(Infer& in) {
  const TensorType& self = in.tensor(0);
  if (ir::isComplex(self.dtype)) refuse("nansum does not support complex inputs");
  DType dtype = accumulated(in, self.dtype, 3, true);
  if (ir::isFloat(self.dtype)) {
    bool narrow = ir::byteSize(self.dtype) == 1 || outDType(in);
    require(in, narrow ? kFloats : kDiscrete | kFloats, dtype);
  }
  addDims(in);
}

void meanOf(Infer& in, uint64_t dims, bool keep, size_t dtypeArgument) {
  const TensorType& self = in.tensor(0);
  DType checked = in.dtype(dtypeArgument).value_or(self.dtype);
  if (ir::isIntegral(checked, true)) refuse("mean needs a floating point or complex dtype");
  DType dtype = accumulated(in, self.dtype, dtypeArgument, true);
  requireAddable(in, self, dtype);
  if (ir::isIntegral(dtype, true)) refuse("mean does not fit into integers");
  reduceTo(in, self, dims, keep, dtype);
}

void meanAll(Infer& in) {
  const TensorType& self = in.tensor(0);
  std::optional<DType> out = outDType(in);
  if (out && ir::isComplex(self.dtype) && !ir::isComplex(*out))
    refuse("a complex mean does not fit into a real tensor");
  meanOf(in, allDims(self.rank), false, 1);
}

void meanDims(Infer& in) { meanOf(in, reducedDims(in, 1, in.tensor(0).rank), in.boolean(2), 3); }

// uint8 stays uint8 for the sake of old programs. out= may be either.
DType truthDType(const Infer& in, const TensorType& self) {
  if (std::optional<DType> out = outDType(in)) {
    if (*out != DType::Bool && *out != DType::UInt8) refuse("any and all give bool or uint8");
    return *out;
  }
  return self.dtype == DType::UInt8 ? DType::UInt8 : DType::Bool;
}

void truthAll(Infer& in) {
  const TensorType& self = in.tensor(0);
  in.contiguous({}, truthDType(in, self), self.device);
}

void truthDim(Infer& in) {
  const TensorType& self = in.tensor(0);
  reduceTo(in, self, reducedDim(in, 1, self.rank), in.boolean(2), truthDType(in, self));
}

// Here an empty list is none: each element for itself.
void truthDims(Infer& in) {
  const TensorType& self = in.tensor(0);
  uint64_t dims = in.given(1) ? dimSet(in.ints(1), self.rank) : allDims(self.rank);
  reduceTo(in, self, dims, in.boolean(2), truthDType(in, self));
}

void countNonzero(Infer& in) {
  const TensorType& self = in.tensor(0);
  if (in.given(1)) return reduceTo(in, self, reducedDim(in, 1, self.rank), false, DType::Int64);
  require(in, kAll | kHalfComplex, self.dtype);
  in.contiguous({}, DType::Int64, self.device);
}

void countNonzeroDims(Infer& in) {
  const TensorType& self = in.tensor(0);
  reduceTo(in, self, reducedDims(in, 1, self.rank), false, DType::Int64);
}

}  // namespace

void addSumReductions(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({"aten::" + schema, rule, Cost::Reduction, traits});
  };
  add("sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", addAll);
  add("sum.out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)", addAll, kExactOut);
  add("sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", addDims);
  add("sum.IntList_out(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out)"
      " -> Tensor(a!)",
      addDims, kExactOut);
  add("nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
      addDimsSkippingNan);
  add("nansum.out(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out)"
      " -> Tensor(a!)",
      addDimsSkippingNan, kExactOut);
  add("prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", addAll);
  add("prod.out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)", addAll, kExactOut);
  add("prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", addDims);
  add("prod.int_out(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)",
      addDims, kExactOut);
  add("mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", meanAll);
  add("mean.dtype_out(Tensor self, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)", meanAll, kExactOut);
  add("mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", meanDims);
  add("mean.out(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor(a!) out) -> Tensor(a!)",
      meanDims, kExactOut);

  for (std::string name : {"any", "all"}) {
    add(name + "(Tensor self) -> Tensor", truthAll);
    add(name + ".all_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", truthAll, kExactOut);
    add(name + ".dim(Tensor self, int dim, bool keepdim=False) -> Tensor", truthDim);
    add(name + ".out(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)", truthDim, kExactOut);
    add(name + ".dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", truthDims);
    add(name + ".dims_out(Tensor self, int[]? dim=None, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)",
        truthDims, kExactOut);
  }
  add("count_nonzero(Tensor self, int? dim=None) -> Tensor", countNonzero);
  add("count_nonzero.out(Tensor self, int? dim=None, *, Tensor(a!) out) -> Tensor(a!)", countNonzero, kExactOut);
  add("count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", countNonzeroDims);
  add("count_nonzero.dim_IntList_out(Tensor self, int[] dim, *, Tensor(a!) out) -> Tensor(a!)", countNonzeroDims,
      kExactOut);
}

}  // namespace saker::ops
