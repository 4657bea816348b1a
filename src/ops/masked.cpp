// Operators whose result has as many elements as a tensor says with its data, and their relatives of fixed size.
#include "ops/accept.h"
#include "ops/elementwise.h"
#include "ops/own_size.h"
#include "ops/rows.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

void countsData(Infer&) { refuse(Reason::DataDependent, "the size of the result depends on data"); }

// As many indices as there are elements, one after the other for each dimension.
void nonzero(Infer& in) {
  const TensorType& self = in.tensor(0);
  if (self.device.type != ir::DeviceType::CPU) return countsData(in);
  Int count = ownSize(in);
  in.strided(Dims{count, Int(int64_t{self.rank})}, Dims{Int(1), count}, DType::Int64, self.device);
}

// Where each element went, and how often each value was there, if that is asked for.
void inverseAndCounts(Infer& in, std::span<const Int> inverse, std::optional<bool> counts, Int count) {
  const TensorType& self = in.tensor(0);
  in.contiguous(inverse, DType::Int64, self.device);
  if (counts) in.contiguous(Dims{*counts ? count : Int(0)}, DType::Int64, self.device);
}

// self, sorted, return_inverse(, return_counts)
void uniqueValues(Infer& in) {
  const TensorType& self = in.tensor(0);
  Int count = ownSize(in);
  in.contiguous(Dims{count}, self);
  bool hasCounts = in.op().parsed.returns.size() == 3;
  inverseAndCounts(in, in.boolean(2) ? Dims(self.sizes()) : Dims{Int(0)},
                   hasCounts ? std::optional(in.boolean(3)) : std::nullopt, count);
}

// Slices along a dimension: it is the slowest in memory. Inverse and counts come unasked.
void uniqueSlices(Infer& in, int64_t dim) {
  const TensorType& self = in.tensor(0);
  if (self.rank == 0) return countsData(in);
  size_t slow = static_cast<size_t>(wrapDim(dim, self.rank));
  if (self.size(slow) == Int(0)) {
    in.contiguous(self.sizes(), self);
    return inverseAndCounts(in, Dims{Int(0)}, false, Int(0));
  }
  for (Int size : self.sizes()) {
    if (size == Int(0)) refuse("there are dimensions of size 0, and they are not selected");
  }
  Int count = ownSize(in), step = 1;
  Dims sizes(self.sizes()), strides(self.sizes());
  sizes[slow] = count;
  for (size_t i = self.rank; i-- > 0;) {
    if (i == slow) continue;
    strides[i] = step;
    step = step * sizes[i];
  }
  strides[slow] = step;
  in.strided(sizes, strides, self.dtype, self.device);
  inverseAndCounts(in, Dims{self.size(slow)}, true, count);
}

// self, dim, ...
void uniqueAlong(Infer& in) { uniqueSlices(in, in.fixed(1)); }

// self, return_inverse, return_counts, dim
void uniqueRuns(Infer& in) {
  const TensorType& self = in.tensor(0);
  // The kernel takes -1 for another dimension than 0.
  if (in.given(3) && !(self.rank == 1 && in.fixed(3) == 0)) return uniqueSlices(in, in.fixed(3));
  Int count = ownSize(in);
  in.contiguous(Dims{count}, self);
  inverseAndCounts(in, in.boolean(1) ? Dims(self.sizes()) : Dims{Int(0)}, in.boolean(2), count);
}

void maskedSelect(Infer& in) {
  const TensorType &self = in.tensor(0), &mask = in.tensor(1);
  if (mask.dtype != DType::Bool) refuse("a mask must be bool");
  broadcast(self.sizes(), mask.sizes());
  in.contiguous(Dims{ownSize(in)}, self);
}

// Elements of source, one after the other, where the mask is set. The functional form broadcasts self.
void maskedScatter(Infer& in) {
  const TensorType &self = in.tensor(0), &mask = in.tensor(1), &source = in.tensor(2);
  if (mask.dtype != DType::Bool) refuse("a mask must be bool");
  if (self.dtype != source.dtype) refuse("self and source are of different dtypes");
  if (self.device != mask.device || self.device != source.device) refuse("tensors on different devices");
  require(in, kAll, self.dtype);
  if (in.op().variant == Variant::Inplace) {
    requireExpandable(mask.sizes(), self.sizes());
    if (hasInternalOverlap(self)) refuse("elements of self share an address");
    return in.result(self);
  }
  in.contiguous(broadcast(self.sizes(), mask.sizes()), self);
}

void maskedScatterBackward(Infer& in) {
  const TensorType &gradient = in.tensor(0), &mask = in.tensor(1);
  broadcast(gradient.sizes(), mask.sizes());
  Dims sizes = in.ints(2);
  requireSizes(sizes);
  in.contiguous(sizes, gradient);
}

// The first `size` indices, filled up.
void nonzeroStatic(Infer& in) {
  const TensorType& self = in.tensor(0);
  Int size = in.integer(1);
  if (size < Int(0)) refuse("a negative size");
  require(in, kAll | kHalfComplex, self.dtype);
  Dims sizes = {size, Int(int64_t{self.rank})};
  in.contiguous(sizes, DType::Int64, self.device);
}

// Reduction of runs along a dimension; the lengths or the bounds of the runs are data.
void segmentReduce(Infer& in) {
  const TensorType& data = in.tensor(0);
  std::string_view reduce = in.string(1);
  if (reduce != "max" && reduce != "mean" && reduce != "min" && reduce != "sum" && reduce != "prod")
    refuse("an unknown reduction");
  const TensorType *lengths = in.optionalTensor(2), *offsets = in.optionalTensor(4);
  if (in.given(3)) refuse("segments by indices are not implemented");
  int64_t axis = wrapDim(in.fixed(5, 0), data.rank);
  const TensorType* segments = offsets ? offsets : lengths;
  if (!segments) refuse("lengths or offsets are needed");
  if (segments->rank > data.rank || axis != static_cast<int64_t>(segments->rank) - 1)
    refuse("axis must be the last of the segments' dimensions");
  if (segments->device != data.device) refuse("tensors on different devices");
  if (segments->dtype != DType::Int64 && segments->dtype != DType::Int32) refuse("segments must be int or long");
  require(in, kFloats, data.dtype);
  Dims sizes(segments->sizes());
  if (offsets) sizes[static_cast<size_t>(axis)] -= 1;
  for (size_t i = static_cast<size_t>(axis) + 1; i < data.rank; ++i) sizes.push_back(data.size(i));
  in.contiguous(sizes, data);
}

void segmentReduceBackward(Infer& in) {
  const TensorType &gradient = in.tensor(0), &data = in.tensor(2);
  in.contiguous(data.sizes(), gradient);
}

}  // namespace

void addMasked(Rows& rows) {
  auto dynamic = [&](const char* schema, InferFn rule = countsData) {
    rows.push_back({schema, rule, Cost::Indexing, kDynamicShape | kFailsOnData});
  };
  dynamic("aten::masked_select(Tensor self, Tensor mask) -> Tensor", maskedSelect);
  dynamic("aten::nonzero(Tensor self) -> Tensor", nonzero);
  dynamic("aten::_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)", uniqueValues);
  dynamic(
      "aten::_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, "
      "Tensor, Tensor)",
      uniqueValues);
  dynamic(
      "aten::unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) "
      "-> "
      "(Tensor, Tensor, Tensor)",
      uniqueAlong);
  dynamic(
      "aten::unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> "
      "(Tensor, Tensor, Tensor)",
      uniqueRuns);
  dynamic(
      "aten::unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> "
      "(Tensor, Tensor, Tensor)",
      uniqueAlong);
  dynamic("aten::bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor");

  addWithOut(rows, "aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", maskedScatter,
             Cost::Indexing, kFailsOnData);
  rows.push_back({"aten::masked_scatter_(Tensor(a!) self, Tensor mask, Tensor source) -> Tensor(a!)", maskedScatter,
                  Cost::Indexing, kFailsOnData | kOwnWrites});
  rows.push_back({"aten::masked_scatter_backward(Tensor grad_output, Tensor mask, SymInt[] sizes) -> Tensor",
                  maskedScatterBackward, Cost::Indexing, kFailsOnData});
  rows.push_back({"aten::nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor", nonzeroStatic,
                  Cost::Indexing});
  addWithOut(rows,
             "aten::segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? "
             "offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
             segmentReduce, Cost::Reduction, kFailsOnData);
  addWithOut(
      rows,
      "aten::_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, Tensor? lengths=None, "
      "Tensor? offsets=None, int axis=0, Scalar? initial=None) -> Tensor",
      segmentReduceBackward, Cost::Reduction);
}

}  // namespace saker::ops
