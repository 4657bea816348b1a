// Views of a part of a tensor's elements.
#include <limits>

#include "ops/geometry.h"

namespace saker::ops {

void sliceDim(TensorSpec& view, int64_t dim, Int start, Int length, Int step) {
  size_t at = static_cast<size_t>(dim);
  Int stride = view.strides[at];
  if (!start.isConst(0)) view.offset += start * stride;
  view.sizes[at] = step.isConst(1) ? length : ceilDiv(length, step);
  if (!step.isConst(1)) view.strides[at] = stride * step;
}

void selectIndex(TensorSpec& view, int64_t dim, Int index) {
  size_t at = static_cast<size_t>(dim);
  if (!index.isConst(0)) view.offset += index * view.strides[at];
  view.sizes.erase(at);
  view.strides.erase(at);
}

namespace {

int64_t rankOf(const TensorSpec& view) { return static_cast<int64_t>(view.sizes.size()); }

// Addresses that the tensor itself spans: what a view may reach into for certain.
Int endOf(IntSpan sizes, IntSpan strides, Int offset) {
  Int end = offset + Int(1);
  for (size_t i = 0; i < sizes.size(); ++i) end += (sizes[i] - Int(1)) * strides[i];
  return end;
}

bool isEmpty(IntSpan sizes) { return static_cast<bool>(ir::numel(sizes) == Int(0)); }

}  // namespace

namespace geometry {

void slice(const Infer& in, TensorSpec& view, size_t first) {
  if (view.sizes.empty()) refuse("a 0-d tensor has no slice");
  int64_t dim = wrapDim(in.fixed(first, 0), rankOf(view));
  Int size = view.sizes[static_cast<size_t>(dim)];
  Int start = in.integer(first + 1, 0);
  Int end = in.integer(first + 2, Int(std::numeric_limits<int64_t>::max()));
  Int step = in.integer(first + 3, 1);
  if (step <= Int(0)) refuse("the step of a slice must be positive");
  bool toTheEnd = end.isConst(std::numeric_limits<int64_t>::max()) || end.same(size);
  if (!start.isConst(0)) {
    if (start < Int(0)) start += size;
    if (start < Int(0))
      start = 0;
    else if (start > size)
      start = size;
  }
  if (toTheEnd) {
    end = size;
  } else {
    if (end < Int(0)) end += size;
    if (end < start)
      end = start;
    else if (end > size)
      end = size;
  }
  sliceDim(view, dim, start, end - start, step);
}

void select(const Infer& in, TensorSpec& view, size_t first) {
  if (view.sizes.empty()) refuse("a 0-d tensor has nothing to select");
  int64_t dim = wrapDim(in.fixed(first), rankOf(view));
  Int size = view.sizes[static_cast<size_t>(dim)];
  Int index = in.integer(first + 1);
  if (index < Int(0)) index += size;
  if (index < Int(0) || index >= size)
    refuse("index " + sym::toString(index) + " is outside size " + sym::toString(size));
  selectIndex(view, dim, index);
}

void diagonal(const Infer& in, TensorSpec& view, size_t first) {
  int64_t offset = in.fixed(first, 0);
  size_t rows = static_cast<size_t>(wrapDim(in.fixed(first + 1, 0), rankOf(view)));
  size_t columns = static_cast<size_t>(wrapDim(in.fixed(first + 2, 1), rankOf(view)));
  if (rows == columns) refuse("a diagonal needs two dimensions");
  // The smallest int64_t has no opposite; no tensor reaches that far.
  Int down = offset < 0 ? Int(offset == std::numeric_limits<int64_t>::min() ? -(offset + 1) : -offset) : Int(0);
  Int right = offset > 0 ? Int(offset) : Int(0);
  Int length = min(view.sizes[rows] - down, view.sizes[columns] - right);
  if (!(length >= Int(0)).provablyTrue()) length = max(length, 0);
  Int shift = right * view.strides[columns] + down * view.strides[rows];
  if (!shift.isConst(0) && length != Int(0)) view.offset += shift;
  Int stride = view.strides[rows] + view.strides[columns];
  for (size_t dim : {std::max(rows, columns), std::min(rows, columns)}) {
    view.sizes.erase(dim);
    view.strides.erase(dim);
  }
  view.sizes.push_back(length);
  view.strides.push_back(stride);
}

void unfold(const Infer& in, TensorSpec& view, size_t first) {
  size_t dim = static_cast<size_t>(wrapDim(in.fixed(first), rankOf(view)));
  Int size = in.integer(first + 1), step = in.integer(first + 2);
  bool scalar = view.sizes.empty();
  if (size < Int(0)) refuse("the size of a window is negative");
  if (size > (scalar ? Int(1) : view.sizes[dim])) refuse("a window is larger than the dimension it moves along");
  if (step <= Int(0)) refuse("the step of a window must be positive");
  Int stride = scalar ? Int(1) : view.strides[dim];
  if (!scalar) {
    view.sizes[dim] = (view.sizes[dim] - size) / step + Int(1);
    view.strides[dim] = step * stride;
  }
  view.sizes.push_back(size);
  view.strides.push_back(stride);
}

void asStrided(const Infer& in, TensorSpec& view, size_t first) {
  Dims sizes = in.ints(first), strides = in.ints(first + 1);
  Int offset = in.integer(first + 2, view.offset);
  if (sizes.size() != strides.size()) refuse("as many strides as sizes are needed");
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < Int(0)) refuse("a size is negative");
    if (strides[i] < Int(0)) refuse("a stride is negative");
  }
  if (offset < Int(0)) refuse("the offset is negative");
  bool unchanged = offset.same(view.offset) && sameSizes(sizes, view.sizes) && sameSizes(strides, view.strides);
  if (!unchanged && !isEmpty(sizes)) {
    // A type does not know how large its storage is; what the tensor itself spans lies in it.
    if (isEmpty(view.sizes) || endOf(sizes, strides, offset) > endOf(view.sizes, view.strides, view.offset)) {
      unsupported("as_strided reaches beyond the addresses of the tensor it is given");
    }
  }
  view.sizes = sizes;
  view.strides = strides;
  view.offset = offset;
}

}  // namespace geometry

TensorSpec clonePreservingStrides(const Infer& in, const TensorType& base) {
  TensorSpec spec = in.viewOf(base);
  // What a conj or neg bit put off is done first, which gives a dense tensor.
  bool resolved = spec.flags.conj || spec.flags.neg;
  spec.flags.conj = spec.flags.neg = false;
  if (resolved || hasInternalOverlap(base)) {
    spec.strides = denseStridesLike(base);
    spec.offset = 0;
  }
  return spec;
}

}  // namespace saker::ops
