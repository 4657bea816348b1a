// Distances between rows.
#include "ops/accept.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

// The batch of both, then a row for each row of x1 and a column for each row of x2.
Dims pairs(const TensorType& x1, const TensorType& x2) {
  if (x1.rank < 2 || x2.rank < 2) refuse("cdist takes matrices or batches of them");
  if (x1.size(x1.rank - 1) != x2.size(x2.rank - 1)) refuse("cdist: rows of different lengths");
  Dims sizes = broadcast(x1.sizes().first(x1.rank - 2), x2.sizes().first(x2.rank - 2));
  sizes.push_back(x1.size(x1.rank - 2));
  sizes.push_back(x2.size(x2.rank - 2));
  return sizes;
}

void requireWide(const Infer& in, const TensorType& x1, const TensorType& x2) {
  require(in, kFull, x1.dtype);
  if (x1.dtype != x2.dtype) refuse("cdist: tensors of different dtypes");
}

// (x1, x2, p, compute_mode)
void cdist(Infer& in) {
  const TensorType& x1 = in.tensor(0);
  const TensorType& x2 = in.tensor(1);
  Dims sizes = pairs(x1, x2);
  requireWide(in, x1, x2);
  Scalar p = in.scalar(2);
  if (p.known && !(p.number >= 0)) refuse("cdist: p must not be negative");
  int64_t mode = in.fixed(3, 0);
  if (mode < 0 || mode > 2) refuse("cdist: modes are 0, 1 and 2");
  in.contiguous(sizes, x1);
}

// (grad, x1, x2, p, cdist): of x1, in the batch of both
void cdistBackward(Infer& in) {
  const TensorType& x1 = in.tensor(1);
  const TensorType& x2 = in.tensor(2);
  Dims sizes = pairs(x1, x2);
  requireWide(in, x1, x2);
  if (in.tensor(0).dtype != x1.dtype || in.tensor(4).dtype != x1.dtype) refuse("cdist: tensors of different dtypes");
  bool empty = static_cast<bool>(x1.size(x1.rank - 1) == Int(0));
  for (Int size : sizes) empty = empty || size == Int(0);
  if (empty) return likeResult(in, x1, x1.dtype);  // not in the batch of both
  sizes[sizes.size() - 1] = x1.size(x1.rank - 1);
  in.contiguous(sizes, x1);
}

void euclidean(Infer& in) {
  const TensorType& x1 = in.tensor(0);
  const TensorType& x2 = in.tensor(1);
  require(in, kFloats, x1.dtype);
  if (x1.dtype != x2.dtype) unsupported("_euclidean_dist of different dtypes");
  in.contiguous(pairs(x1, x2), x1);
}

void requirePairs(const Infer& in, const TensorType& self) {
  if (self.rank < 2) refuse("pdist takes rows");
  if (!isContiguous(self)) refuse("pdist takes row-major rows");
  require(in, kFull, self.dtype);
}

void pdist(Infer& in) {
  const TensorType& self = in.tensor(0);
  requirePairs(in, self);
  Int rows = self.size(0);
  Int count = rows < Int(2) ? Int(0) : rows * (rows - Int(1)) / Int(2);
  in.contiguous(Dims{count}, self);
}

// (grad, self, p, pdist)
void pdistBackward(Infer& in) {
  const TensorType& self = in.tensor(1);
  requirePairs(in, self);
  if (!isContiguous(in.tensor(3))) refuse("pdist takes row-major distances");
  in.contiguous(self.sizes(), self);
}

}  // namespace

void addDistances(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({"aten::" + schema, rule, Cost::Library, traits});
  };
  add("_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor", cdist);
  add("_cdist_forward.out(Tensor x1, Tensor x2, float p, int? compute_mode, *, Tensor(a!) out) -> Tensor(a!)", cdist,
      kExactOut);
  add("_cdist_backward(Tensor grad_output, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor", cdistBackward);
  add("_cdist_backward.out(Tensor grad_output, Tensor x1, Tensor x2, float p, Tensor cdist, *, Tensor(a!) out) -> "
      "Tensor(a!)",
      cdistBackward, kExactOut);
  add("_euclidean_dist(Tensor x1, Tensor x2) -> Tensor", euclidean);
  add("_euclidean_dist.out(Tensor x1, Tensor x2, *, Tensor(a!) out) -> Tensor(a!)", euclidean, kExactOut);
  add("_pdist_forward(Tensor self, float p=2.) -> Tensor", pdist);
  add("_pdist_forward.out(Tensor self, float p=2., *, Tensor(a!) out) -> Tensor(a!)", pdist, kExactOut);
  add("_pdist_backward(Tensor grad_output, Tensor self, float p, Tensor pdist) -> Tensor", pdistBackward);
  add("_pdist_backward.out(Tensor grad_output, Tensor self, float p, Tensor pdist, *, Tensor(a!) out) -> Tensor(a!)",
      pdistBackward, kExactOut);
}

}  // namespace saker::ops
