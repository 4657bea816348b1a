// Views of all elements of a tensor in another shape.
#include "ops/geometry.h"

namespace saker::ops {

Dims inferSizes(IntSpan requested, Int numel) {
  Dims sizes(requested);
  Int known = 1;
  std::optional<size_t> open;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].isConst(-1)) {
      if (open) refuse("only one dimension can be inferred");
      open = i;
    } else {
      if (sizes[i] < Int(0)) refuse("invalid size " + sym::toString(sizes[i]));
      known *= sizes[i];
    }
  }
  if (open) {
    if (known == Int(0)) refuse("the size to be inferred is ambiguous: there are no elements");
    if (numel % known != Int(0)) refuse(sym::toString(numel) + " elements do not fill the requested shape");
    sizes[*open] = numel / known;
  } else if (!known.same(numel) && known != numel) {
    refuse("the requested shape does not have " + sym::toString(numel) + " elements");
  }
  return sizes;
}

namespace {

// Products of sizes that differ by a whole factor are told apart without a guard.
bool isLess(Int part, Int whole) {
  if (part.same(whole)) return false;
  if (!part.isConst() || !whole.isConst()) {
    if ((part == Int(1)).provablyTrue() ? (whole >= Int(2)).provablyTrue() : (whole / part >= Int(2)).provablyTrue()) {
      return true;
    }
  }
  return static_cast<bool>(part < whole);
}

bool isRowMajor(IntSpan sizes, IntSpan strides) {
  Int expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (!strides[i].same(expected)) return false;
    expected *= sizes[i];
  }
  return true;
}

}  // namespace

std::optional<Dims> viewStrides(IntSpan sizes, IntSpan strides, IntSpan target) {
  Int total = ir::numel(sizes);
  if (total == Int(0)) {
    return sameSizes(sizes, target) ? Dims(strides) : ir::contiguousStrides(target);
  }
  if (isRowMajor(sizes, strides)) return ir::contiguousStrides(target);
  // From the back: runs of dimensions that lie in memory without a gap between them (`base` is the stride of a run's
  // innermost element) must be cut at the same places in both shapes.
  Dims out(target.size());
  size_t next = target.size();
  Int base = strides.back();
  Int run = 1, seen = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    run *= sizes[i];
    if (i > 0) {
      Int outer = strides[i - 1], expected = run * base;
      if (sizes[i - 1] == Int(1) || outer.same(expected) || outer == expected) continue;
    }
    while (next > 0 && (isLess(seen, run) || target[next - 1] == Int(1))) {
      --next;
      out[next] = seen * base;
      seen *= target[next];
    }
    if (!seen.same(run) && seen != run) return std::nullopt;
    if (i > 0) {
      base = strides[i - 1];
      run = seen = 1;
    }
  }
  if (next != 0) return std::nullopt;
  return out;
}

namespace geometry {

void same(const Infer&, TensorSpec&, size_t) {}

void view(const Infer& in, TensorSpec& view, size_t first) {
  Dims sizes = inferSizes(in.ints(first), ir::numel(view.sizes));
  std::optional<Dims> strides = viewStrides(view.sizes, view.strides, sizes);
  if (!strides) refuse("the tensor cannot be seen in the requested shape without a copy");
  view.sizes = sizes;
  view.strides = *strides;
}

void reshapeAlias(const Infer& in, TensorSpec& view, size_t first) {
  view.sizes = in.ints(first);
  view.strides = in.ints(first + 1);
  if (view.sizes.size() != view.strides.size()) refuse("as many strides as sizes are needed");
  for (Int size : view.sizes) {
    if (size < Int(0)) refuse("a size is negative");
  }
  // PyTorch takes the stride that a row-major tensor has there.
  for (Int stride : view.strides) {
    if (stride < Int(0)) unsupported("a stride is negative");
  }
}

void expand(const Infer& in, TensorSpec& view, size_t first) {
  Dims sizes = in.ints(first);
  if (sizes.size() < view.sizes.size()) refuse("fewer sizes than the tensor has dimensions");
  size_t added = sizes.size() - view.sizes.size();
  Dims strides(sizes.size());
  for (size_t i = sizes.size(); i-- > 0;) {
    bool exists = i >= added;
    if (exists) {
      Int size = view.sizes[i - added];
      strides[i] = view.strides[i - added];
      if (sizes[i].same(size)) continue;
      if (sizes[i].isConst(-1)) {
        sizes[i] = size;
        continue;
      }
      if (size == sizes[i]) continue;
      if (size != Int(1)) refuse("size " + sym::toString(size) + " does not expand to " + sym::toString(sizes[i]));
      strides[i] = 0;
    } else if (view.sizes.empty()) {
      strides[i] = 0;
    } else {
      // A new dimension of size 1 gets the stride it would have in memory.
      strides[i] = sizes[i] == Int(1) ? sizes[i + 1] * strides[i + 1] : Int(0);
    }
    if (sizes[i] < Int(0)) refuse("a size is negative");
  }
  view.sizes = sizes;
  view.strides = strides;
}

void permute(const Infer& in, TensorSpec& view, size_t first) {
  Dims dims = in.ints(first);
  int64_t rank = static_cast<int64_t>(view.sizes.size());
  if (dims.size() != view.sizes.size()) refuse("a permutation names every dimension once");
  dimSet(dims, rank);
  Dims sizes = view.sizes, strides = view.strides;
  for (size_t i = 0; i < dims.size(); ++i) {
    size_t from = static_cast<size_t>(wrapDim(dims[i].guard(), rank));
    view.sizes[i] = sizes[from];
    view.strides[i] = strides[from];
  }
}

namespace {

void swapDims(TensorSpec& view, int64_t a, int64_t b) {
  int64_t rank = static_cast<int64_t>(view.sizes.size());
  size_t i = static_cast<size_t>(wrapDim(a, rank)), j = static_cast<size_t>(wrapDim(b, rank));
  if (rank == 0) return;
  std::swap(view.sizes[i], view.sizes[j]);
  std::swap(view.strides[i], view.strides[j]);
}

template <typename Predicate>
void squeezeWhere(TensorSpec& view, Predicate chosen) {
  size_t kept = 0;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (chosen(i) && view.sizes[i] == Int(1)) continue;
    view.sizes[kept] = view.sizes[i];
    view.strides[kept++] = view.strides[i];
  }
  view.sizes.resize(kept);
  view.strides.resize(kept);
}

}  // namespace

void transpose(const Infer& in, TensorSpec& view, size_t first) {
  swapDims(view, in.fixed(first), in.fixed(first + 1));
}

void t(const Infer&, TensorSpec& view, size_t) {
  if (view.sizes.size() > 2) refuse("t() needs a tensor of at most two dimensions");
  if (view.sizes.size() == 2) swapDims(view, 0, 1);
}

void squeeze(const Infer&, TensorSpec& view, size_t) {
  squeezeWhere(view, [](size_t) { return true; });
}

void squeezeDim(const Infer& in, TensorSpec& view, size_t first) {
  size_t dim = static_cast<size_t>(wrapDim(in.fixed(first), static_cast<int64_t>(view.sizes.size())));
  squeezeWhere(view, [dim](size_t i) { return i == dim; });
}

void squeezeDims(const Infer& in, TensorSpec& view, size_t first) {
  uint64_t dims = dimSet(in.ints(first), static_cast<int64_t>(view.sizes.size()));
  squeezeWhere(view, [dims](size_t i) { return dims >> i & 1; });
}

void unsqueeze(const Infer& in, TensorSpec& view, size_t first) {
  size_t rank = view.sizes.size();
  size_t dim = static_cast<size_t>(wrapDim(in.fixed(first), static_cast<int64_t>(rank) + 1));
  Int stride = dim == rank ? Int(1) : view.sizes[dim] * view.strides[dim];
  view.sizes.insert(dim, Int(1));
  view.strides.insert(dim, stride);
}

}  // namespace geometry

}  // namespace saker::ops
