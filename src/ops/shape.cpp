#include "ops/shape.h"

#include <string>

namespace saker::ops {

int64_t wrapDim(int64_t dim, int64_t rank) {
  int64_t limit = rank > 0 ? rank : 1;
  if (dim < -limit || dim >= limit) {
    refuse("dimension " + std::to_string(dim) + " is outside [" + std::to_string(-limit) + ", " +
           std::to_string(limit - 1) + "]");
  }
  return dim < 0 ? dim + limit : dim;
}

uint64_t dimSet(IntSpan dims, int64_t rank) {
  if (rank > 64) unsupported("a tensor of more than 64 dimensions");
  uint64_t set = 0;
  for (Int dim : dims) {
    uint64_t bit = uint64_t{1} << wrapDim(dim.guard(), rank);
    if (set & bit) refuse("dimension " + sym::toString(dim) + " is named twice");
    set |= bit;
  }
  return set;
}

Dims broadcast(IntSpan a, IntSpan b) {
  if (a.size() < b.size()) return broadcast(b, a);
  Dims out(a);
  size_t shift = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    Int x = a[shift + i], y = b[i];
    if (x.same(y) || y.isConst(1)) continue;
    if (x == Int(1)) {
      out[shift + i] = y;
    } else if (y != Int(1) && y != x) {
      refuse("size " + sym::toString(x) + " does not broadcast with " + sym::toString(y) + " at dimension " +
             std::to_string(shift + i));
    }
  }
  return out;
}

bool sameSizes(IntSpan a, IntSpan b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].same(b[i]) && a[i] != b[i]) return false;
  }
  return true;
}

void requireSizes(IntSpan sizes) {
  for (Int size : sizes) {
    if (size < Int(0)) refuse("a size is negative: " + sym::toString(size));
  }
}

void requireExpandable(IntSpan from, IntSpan to) {
  if (from.size() > to.size()) refuse("a tensor of more dimensions does not expand to one of fewer");
  size_t shift = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    Int a = from[i], b = to[shift + i];
    if (!a.same(b) && !a.isConst(1) && a != b && a != Int(1)) {
      refuse("size " + sym::toString(a) + " does not expand to " + sym::toString(b));
    }
  }
}

Int numel(const TensorType& t) { return ir::numel(t.sizes()); }

namespace {

// Are the strides dense when dimensions are counted in `order`, the fastest first?
bool isDenseIn(const TensorType& t, std::span<const int> order) {
  Int expected = 1;
  for (int dim : order) {
    Int size = t.size(static_cast<size_t>(dim));
    if (size == Int(1)) continue;
    Int stride = t.stride(static_cast<size_t>(dim));
    if (!stride.same(expected) && stride != expected) return false;
    expected *= size;
  }
  return true;
}

constexpr int kChannelsLast2d[] = {1, 3, 2, 0};
constexpr int kChannelsLast3d[] = {1, 4, 3, 2, 0};

// Could these strides be meant as channels_last? Weaker than being contiguous in it: gaps are allowed, but an
// ambiguous tensor (as of one channel, or a broadcast one) is not.
bool looksChannelsLast(const TensorType& t, std::span<const int> order) {
  Int least = 0;
  if (t.stride(1) == Int(0)) return false;
  for (int dim : order) {
    Int size = t.size(static_cast<size_t>(dim)), stride = t.stride(static_cast<size_t>(dim));
    if (size == Int(0) || stride < least) return false;
    // Row-major with one channel (N, 1, H, W) is row-major.
    if (dim == 0 && least == t.stride(1)) return false;
    least = size > Int(1) ? stride * size : stride;
  }
  return true;
}

}  // namespace

bool isRowMajor(const TensorType& t) {
  Int expected = 1;
  for (size_t i = t.rank; i-- > 0;) {
    if (!t.stride(i).same(expected)) return false;
    Int size = t.size(i);
    if (size.isConst() ? size.constant() > 1 : true) expected *= size;
  }
  return true;
}

bool isContiguous(const TensorType& t) {
  if (isRowMajor(t) || numel(t) == Int(0)) return true;
  Int expected = 1;
  for (size_t i = t.rank; i-- > 0;) {
    if (t.size(i) == Int(1)) continue;
    if (!t.stride(i).same(expected) && t.stride(i) != expected) return false;
    expected *= t.size(i);
  }
  return true;
}

bool isContiguous(const TensorType& t, MemoryFormat format) {
  switch (format) {
    case MemoryFormat::ChannelsLast:
      return t.rank == 4 && isDenseIn(t, kChannelsLast2d);
    case MemoryFormat::ChannelsLast3d:
      return t.rank == 5 && isDenseIn(t, kChannelsLast3d);
    default:
      return isContiguous(t);
  }
}

bool isNonOverlappingAndDense(const TensorType& t) {
  if (isContiguous(t)) return true;
  if (t.rank == 1) return t.size(0) < Int(2) || t.stride(0) == Int(1);
  // Sort dimensions by stride, those of size 0 and 1 last (they do not matter), and look for gaps.
  SmallVec<int, 6> order;
  for (size_t i = 0; i < t.rank; ++i) {
    if (t.size(i) < Int(2)) continue;
    size_t at = order.size();
    while (at > 0 && t.stride(static_cast<size_t>(order[at - 1])) > t.stride(i)) --at;
    order.insert(at, static_cast<int>(i));
  }
  return isDenseIn(t, order);
}

bool hasInternalOverlap(const TensorType& t) {
  for (size_t i = 0; i < t.rank; ++i) {
    if (t.stride(i).isConst(0) && t.size(i) > Int(1)) return static_cast<bool>(numel(t) != Int(0));
  }
  return false;
}

// Each stride steps over all that the smaller ones reach.
bool surelyApart(const TensorType& t) {
  // By stride where that can be told, else from the last dimension on.
  SmallVec<size_t, 6> dims;
  for (size_t i = t.rank; i-- > 0;) {
    if (t.size(i).isConst(0)) return true;
    if (!surelyOne(t.size(i))) dims.push_back(i);
  }
  auto less = [&](size_t a, size_t b) { return (t.stride(a) < t.stride(b)).provablyTrue(); };
  for (size_t i = 1; i < dims.size(); ++i) {
    for (size_t k = i; k > 0 && less(dims[k], dims[k - 1]); --k) std::swap(dims[k], dims[k - 1]);
  }
  Int reach = 1;
  for (size_t dim : dims) {
    if (!(t.stride(dim) >= reach).provablyTrue()) return false;
    reach += (t.size(dim) - Int(1)) * t.stride(dim);
  }
  return true;
}

MemoryFormat suggestMemoryFormat(const TensorType& t) {
  if (t.rank == 4 && looksChannelsLast(t, kChannelsLast2d)) return MemoryFormat::ChannelsLast;
  if (t.rank == 5 && looksChannelsLast(t, kChannelsLast3d)) return MemoryFormat::ChannelsLast3d;
  return MemoryFormat::Contiguous;
}

Dims stridesIn(IntSpan sizes, MemoryFormat format) {
  if (format == MemoryFormat::Contiguous) return ir::contiguousStrides(sizes);
  bool three = format == MemoryFormat::ChannelsLast3d;
  if (format == MemoryFormat::Preserve || sizes.size() != (three ? 5u : 4u)) {
    refuse(std::string("memory format ") + std::string(ir::name(format)) + " does not fit a tensor of rank " +
           std::to_string(sizes.size()));
  }
  std::span<const int> order = three ? std::span<const int>(kChannelsLast3d) : std::span<const int>(kChannelsLast2d);
  return stridesInOrder(sizes, order);
}

SmallVec<int, 6> memoryOrder(IntSpan sizes, IntSpan strideRows) {
  size_t rank = sizes.size();
  SmallVec<int, 6> order;
  for (size_t i = rank; i-- > 0;) order.push_back(static_cast<int>(i));
  auto outOfOrder = [&](size_t faster, size_t slower) {
    for (size_t row = 0; row < strideRows.size(); row += rank) {
      Int a = strideRows[row + faster], b = strideRows[row + slower];
      if (a.isConst(0) || b.isConst(0)) continue;
      if (!a.same(b)) {
        if (a < b) return -1;
        if (a > b) return 1;
      }
      if (sizes[faster] > sizes[slower]) return 1;
    }
    return 0;
  };
  for (size_t i = 1; i < rank; ++i) {
    size_t moving = i;
    for (size_t j = i; j-- > 0;) {
      int comparison = outOfOrder(static_cast<size_t>(order[j]), static_cast<size_t>(order[moving]));
      if (comparison < 0) break;
      if (comparison > 0) {
        std::swap(order[j], order[moving]);
        moving = j;
      }
    }
  }
  return order;
}

Dims stridesInOrder(IntSpan sizes, std::span<const int> order) {
  Dims out(sizes.size());
  Int next = 1;
  for (int dim : order) {
    out[static_cast<size_t>(dim)] = next;
    next *= sizes[static_cast<size_t>(dim)];
  }
  return out;
}

Dims denseStrides(IntSpan sizes, IntSpan strides) { return stridesInOrder(sizes, memoryOrder(sizes, strides)); }

Dims denseStridesLike(const TensorType& like) {
  if (isNonOverlappingAndDense(like)) return Dims(like.strides());
  return denseStrides(like.sizes(), like.strides());
}

}  // namespace saker::ops
