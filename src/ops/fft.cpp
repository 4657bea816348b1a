// Fourier transforms. The strides of results are MKL's way of batching: transformed dimensions innermost, the others
// outside them, both in the order of the input's strides. cuFFT's are the same for few dimensions.
#include <algorithm>
#include <utility>

#include "ops/accept.h"
#include "ops/families.h"
#include "ops/infer.h"
#include "ops/rows.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

using Order = SmallVec<int, 6>;

// By falling stride; equal strides keep their order.
void sortByStride(int* first, int* last, IntSpan strides) {
  for (int* i = first; i < last; ++i) {
    for (int* j = i; j > first; --j) {
      Int a = strides[static_cast<size_t>(j[-1])], b = strides[static_cast<size_t>(*j)];
      if (a.same(b) || b <= a) break;
      std::swap(j[-1], *j);
    }
  }
}

Order dimsOf(const Infer& in, size_t rank) {
  Order dims;
  uint64_t seen = 0;
  for (Int dim : in.ints(1)) {
    int64_t d = dim.guard();
    if (d < 0 || d >= static_cast<int64_t>(rank) || (seen >> d & 1)) unsupported("dimensions out of order");
    seen |= uint64_t{1} << d;
    dims.push_back(static_cast<int>(d));
  }
  return dims;
}

// Batch dimensions as a partition that swaps from both ends leaves them, before they are sorted.
Order batchDims(size_t rank, const Order& transformed) {
  Order order;
  SmallVec<bool, 6> isTransformed(rank, false);
  for (int dim : transformed) isTransformed[static_cast<size_t>(dim)] = true;
  for (size_t i = 0; i < rank; ++i) order.push_back(static_cast<int>(i));
  int *first = order.begin(), *last = order.end();
  while (true) {
    while (first != last && !isTransformed[static_cast<size_t>(*first)]) ++first;
    if (first == last) break;
    --last;
    while (first != last && isTransformed[static_cast<size_t>(*last)]) --last;
    if (first == last) break;
    std::swap(*first, *last);
    ++first;
  }
  order.resize(rank - transformed.size());
  return order;
}

// Strides of a transform over `dims` (outermost first) of a tensor of `strides` into `sizes`.
Dims transformStrides(IntSpan strides, IntSpan sizes, const Order& dims) {
  Order batch = batchDims(sizes.size(), dims);
  sortByStride(batch.begin(), batch.end(), strides);
  Dims out(sizes.size());
  Int next = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    size_t dim = static_cast<size_t>(dims[i]);
    out[dim] = next;
    next *= max(sizes[dim], Int(1));
  }
  for (size_t i = batch.size(); i-- > 0;) {
    size_t dim = static_cast<size_t>(batch[i]);
    out[dim] = next;
    next *= sizes[dim];
  }
  return out;
}

void transformed(Infer& in, const TensorType& self, IntSpan sizes, IntSpan strides, DType dtype) {
  in.strided(sizes, strides, dtype, self.device);
}

// `most`: the number of dimensions for which cuFFT's strides are MKL's.
void requireSignal(const TensorType& self, const Order& dims, size_t most) {
  if (self.device.type != DeviceType::CPU && dims.size() > most) unsupported("the strides of cuFFT's results");
  for (int dim : dims) {
    if (self.size(static_cast<size_t>(dim)) < Int(1)) refuse("a transform of no data points");
  }
  for (Int size : self.sizes()) {
    if (size == Int(0)) unsupported("a transform of no elements");
  }
}

// (self, dim, normalization, forward)
void complexToComplex(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, kComplex, self.dtype);
  Order dims = dimsOf(in, self.rank);
  if (dims.empty()) return transformed(in, self, self.sizes(), denseStridesLike(self), self.dtype);
  requireSignal(self, dims, 2);
  sortByStride(dims.begin(), dims.end(), self.strides());
  transformed(in, self, self.sizes(), transformStrides(self.strides(), self.sizes(), dims), self.dtype);
}

// (self, dim, normalization, onesided)
void realToComplex(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, kFull, self.dtype);
  Order dims = dimsOf(in, self.rank);
  if (dims.empty()) unsupported("a transform over no dimension");
  requireSignal(self, dims, 2);
  Dims sizes(self.sizes());
  size_t last = static_cast<size_t>(dims.back());
  if (in.boolean(3)) sizes[last] = sizes[last] / Int(2) + Int(1);
  sortByStride(dims.begin(), dims.end() - 1, self.strides());
  transformed(in, self, sizes, transformStrides(self.strides(), sizes, dims), ir::toComplex(self.dtype));
}

// (self, dim, normalization, last_dim_size): complex over all dimensions but the last, then the last alone.
void complexToReal(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, kComplex, self.dtype);
  Order dims = dimsOf(in, self.rank);
  if (dims.empty()) unsupported("a transform over no dimension");
  requireSignal(self, dims, 1);
  Int size = in.integer(3);
  if (size < Int(1)) refuse("a transform of no data points");
  Dims strides(self.strides());
  Order last{dims.back()};
  if (dims.size() > 1) {
    dims.pop_back();
    sortByStride(dims.begin(), dims.end(), strides);
    strides = transformStrides(strides, self.sizes(), dims);
  }
  Dims sizes(self.sizes());
  sizes[static_cast<size_t>(last[0])] = size;
  transformed(in, self, sizes, transformStrides(strides, sizes, last), ir::toReal(self.dtype));
}

}  // namespace

void addFourierTransforms(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule) { addWithOut(rows, "aten::" + schema, rule, Cost::Library); };
  add("_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor", complexToComplex);
  add("_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", realToComplex);
  add("_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor", complexToReal);
}

}  // namespace saker::ops
