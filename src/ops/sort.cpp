// Sorting and selection of the largest.
#include "ops/accept.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

// Values and indices keep the order of the input's strides.
template <size_t dimArgument>
void sort(Infer& in) {
  const TensorType& self = in.tensor(0);
  wrapDim(in.fixed(dimArgument, -1), self.rank);
  require(in, kBool | kReal | kWideInts, self.dtype);
  likeResult(in, self, self.dtype);
  likeResult(in, self, DType::Int64);
}

// (self, k, dim, largest, sorted)
void topK(Infer& in) {
  const TensorType& self = in.tensor(0);
  size_t dim = static_cast<size_t>(wrapDim(in.fixed(2, -1), self.rank));
  Int k = in.integer(1);
  if (k < Int(0) || k > (self.rank > 0 ? self.size(dim) : Int(1))) refuse("topk: k is out of range");
  require(in, kReal, self.dtype);
  Dims sizes(self.sizes());
  if (self.rank > 0) sizes[dim] = k;
  in.contiguous(sizes, self);
  in.contiguous(sizes, DType::Int64, self.device);
}

}  // namespace

void addSorts(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({"aten::" + schema, rule, Cost::Sort, traits});
  };
  add("sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", sort<1>);
  add("sort.values(Tensor self, int dim=-1, bool descending=False, *, Tensor(a!) values, Tensor(b!) indices)"
      " -> (Tensor(a!) values, Tensor(b!) indices)",
      sort<1>, kExactOut);
  add("sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
      sort<2>);
  add("sort.values_stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False, Tensor(a!) values,"
      " Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)",
      sort<2>, kExactOut);
  add("topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
      topK);
  add("topk.values(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True, *, Tensor(a!) values,"
      " Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)",
      topK, kExactOut);
}

}  // namespace saker::ops
