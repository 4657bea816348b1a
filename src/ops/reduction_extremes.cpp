// Reductions that pick an element: extremes, medians, modes, order statistics.
#include "ops/accept.h"
#include "ops/families.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

constexpr uint8_t kOrdered = kBool | kReal;

// (self, dim=[], keepdim)
void extremeDims(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, kOrdered, self.dtype);
  uint64_t dims = reducedDims(in, 1, self.rank);
  requireElements(in, self, dims);
  reduceTo(in, self, dims, in.boolean(2), self.dtype);
}

void extremeAll(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, kOrdered, self.dtype);
  requireElements(in, self, allDims(self.rank));
  in.contiguous({}, self.dtype, self.device);
}

// A value and its index for each position: (self, dim, keepdim) with the dimension at `dimArgument`.
template <uint16_t accepted, size_t dimArgument>
void pick(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, accepted, self.dtype);
  uint64_t dims = reducedDim(in, dimArgument, self.rank);
  requireElements(in, self, dims);
  Dims sizes = reducedSizes(self, dims, in.boolean(dimArgument + 1));
  in.contiguous(sizes, self.dtype, self.device);
  in.contiguous(sizes, DType::Int64, self.device);
}

// (self, k, dim, keepdim)
void kthValue(Infer& in) {
  const TensorType& self = in.tensor(0);
  int64_t dim = wrapDim(in.fixed(2, -1), self.rank);
  Int size = self.rank > 0 ? self.size(static_cast<size_t>(dim)) : Int(1);
  Int k = in.integer(1);
  if (k < Int(1) || k > size) refuse("kthvalue: k is out of range");
  pick<kReal, 2>(in);
}

// (self, dim=None, keepdim)
void position(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, kReal, self.dtype);
  uint64_t dims = in.given(1) ? reducedDim(in, 1, self.rank) : allDims(self.rank);
  requireElements(in, self, dims);
  reduceTo(in, self, dims, in.boolean(2), DType::Int64);
}

void bothExtremes(Infer& in, uint64_t dims, bool keep) {
  const TensorType& self = in.tensor(0);
  require(in, kOrdered, self.dtype);
  requireElements(in, self, dims);
  Dims sizes = reducedSizes(self, dims, keep);
  in.contiguous(sizes, self);
  in.contiguous(sizes, self);
}

// (self, *, dim=None, keepdim)
void aminmax(Infer& in) {
  size_t rank = in.tensor(0).rank;
  bothExtremes(in, in.given(1) ? reducedDim(in, 1, rank) : allDims(rank), in.boolean(2));
}
void aminmaxAll(Infer& in) { bothExtremes(in, allDims(in.tensor(0).rank), false); }
void aminmaxDim(Infer& in) { bothExtremes(in, reducedDim(in, 1, in.tensor(0).rank), in.boolean(2)); }

// An empty tensor has a median: NaN, or the least integer.
void medianAll(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, kReal, self.dtype);
  in.contiguous({}, self.dtype, self.device);
}

// (self, dim=[], *, keepdim, mode)
void hashTensor(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, kOrdered, self.dtype);
  if (in.fixed(3, 0) != 0) refuse("hash_tensor knows mode 0 only");
  uint64_t dims = reducedDims(in, 1, self.rank);
  requireElements(in, self, dims);
  reduceTo(in, self, dims, in.boolean(2), DType::UInt64);
}

}  // namespace

void addExtremes(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({"aten::" + schema, rule, Cost::Reduction, traits});
  };
  for (std::string name : {"amax", "amin"}) {
    add(name + "(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", extremeDims);
    add(name + ".out(Tensor self, int[1] dim=[], bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)", extremeDims,
        kExactOut);
  }
  for (std::string name : {"max", "min"}) {
    add(name + "(Tensor self) -> Tensor", extremeAll);
    add(name + ".unary_out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", extremeAll);
    add(name + ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", pick<kOrdered, 1>);
  }
  add("max.dim_max(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) max, Tensor(b!) max_values)"
      " -> (Tensor(a!) values, Tensor(b!) indices)",
      pick<kOrdered, 1>, kExactOut);
  add("min.dim_min(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) min, Tensor(b!) min_indices)"
      " -> (Tensor(a!) values, Tensor(b!) indices)",
      pick<kOrdered, 1>, kExactOut);
  for (std::string name : {"argmax", "argmin"}) {
    add(name + "(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", position);
    add(name + ".out(Tensor self, int? dim=None, bool keepdim=False, *, Tensor(a!) out) -> Tensor(a!)", position,
        kExactOut);
  }
  add("aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", aminmax);
  add("aminmax.out(Tensor self, *, int? dim=None, bool keepdim=False, Tensor(a!) min, Tensor(b!) max)"
      " -> (Tensor(a!) min, Tensor(b!) max)",
      aminmax, kExactOut);
  add("_aminmax(Tensor self) -> (Tensor, Tensor)", aminmaxAll);
  add("_aminmax.out(Tensor self, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))", aminmaxAll,
      kExactOut);
  add("_aminmax.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor, Tensor)", aminmaxDim);
  add("_aminmax.dim_out(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) out0, Tensor(b!) out1)"
      " -> (Tensor(a!), Tensor(b!))",
      aminmaxDim, kExactOut);
  for (std::string name : {"median", "nanmedian"}) {
    add(name + "(Tensor self) -> Tensor", medianAll);
    add(name + ".out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", medianAll, kExactOut);
    add(name + ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", pick<kReal, 1>);
    add(name +
            ".dim_values(Tensor self, int dim, bool keepdim=False, *, Tensor(a!) values, Tensor(b!) indices)"
            " -> (Tensor(a!) values, Tensor(b!) indices)",
        pick<kReal, 1>, kExactOut);
  }
  add("mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", pick<kOrdered, 1>);
  add("mode.values(Tensor self, int dim=-1, bool keepdim=False, *, Tensor(a!) values, Tensor(b!) indices)"
      " -> (Tensor(a!) values, Tensor(b!) indices)",
      pick<kOrdered, 1>, kExactOut);
  add("kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", kthValue);
  add("kthvalue.values(Tensor self, SymInt k, int dim=-1, bool keepdim=False, *, Tensor(a!) values, Tensor(b!) indices)"
      " -> (Tensor(a!) values, Tensor(b!) indices)",
      kthValue, kExactOut);
  add("hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor", hashTensor);
  add("hash_tensor.out(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0, Tensor(a!) out) -> Tensor(a!)",
      hashTensor, kExactOut);
}

}  // namespace saker::ops
