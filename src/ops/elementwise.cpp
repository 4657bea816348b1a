#include "ops/elementwise.h"

#include <algorithm>

#include "ops/shape.h"

namespace saker::ops {

namespace {

bool allSameSizes(std::span<const TensorType* const> inputs, IntSpan sizes) {
  for (const TensorType* t : inputs) {
    if (t && !sameSizes(t->sizes(), sizes)) return false;
  }
  return true;
}

template <typename Predicate>
bool allOf(std::span<const TensorType* const> inputs, Predicate predicate) {
  for (const TensorType* t : inputs) {
    if (t && !predicate(*t)) return false;
  }
  return true;
}

bool sameStrides(const TensorType& a, const TensorType& b) {
  for (size_t i = 0; i < a.rank; ++i) {
    if (!a.stride(i).same(b.stride(i)) && a.stride(i) != b.stride(i)) return false;
  }
  return true;
}

// Strides of one input seen in the result's sizes; 0 where it is broadcast.
Dims broadcastStrides(const TensorType& t, IntSpan sizes) {
  Dims strides(sizes.size());
  size_t shift = sizes.size() - t.rank;
  for (size_t i = 0; i < t.rank; ++i) {
    bool spread = !t.size(i).same(sizes[shift + i]) && t.size(i) == Int(1) && sizes[shift + i] != Int(1);
    strides[shift + i] = spread ? Int(0) : t.stride(i);
  }
  return strides;
}

Dims orderedStrides(std::span<const TensorType* const> inputs, IntSpan sizes) {
  SmallVec<Int, 24> rows;
  for (const TensorType* t : inputs) {
    if (t) rows.append(broadcastStrides(*t, sizes));
  }
  SmallVec<int, 6> order = memoryOrder(sizes, rows);
  bool rowMajor = true;
  for (size_t i = 0; i < order.size(); ++i) rowMajor &= order[i] == static_cast<int>(order.size() - 1 - i);
  return rowMajor ? ir::contiguousStrides(sizes) : stridesInOrder(sizes, order);
}

bool hasEmptyDimension(IntSpan sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](Int size) { return size.isConst(0); });
}

Dims resultStrides(std::span<const TensorType* const> inputs, IntSpan sizes) {
  if (allSameSizes(inputs, sizes)) {
    if (allOf(inputs, [](const TensorType& t) { return isContiguous(t); })) return ir::contiguousStrides(sizes);
    if (allOf(inputs, [](const TensorType& t) { return isContiguous(t, MemoryFormat::ChannelsLast); })) {
      return stridesIn(sizes, MemoryFormat::ChannelsLast);
    }
    const TensorType* first = nullptr;
    bool same = allOf(inputs, [&](const TensorType& t) {
      if (!first) first = &t;
      return isNonOverlappingAndDense(t) && sameStrides(*first, t);
    });
    if (same && first) return Dims(first->strides());
  } else if (allOf(inputs,
                   [&](const TensorType& t) {
                     return t.rank == 0 || (t.rank == sizes.size() && isRowMajor(t) && sameSizes(t.sizes(), sizes));
                   }) &&
             !hasEmptyDimension(sizes)) {
    return ir::contiguousStrides(sizes);  // the usual case of a number beside row-major tensors, for speed
  }
  return orderedStrides(inputs, sizes);
}

}  // namespace

Device commonDevice(std::span<const TensorType* const> inputs) {
  const TensorType* chosen = nullptr;
  for (const TensorType* t : inputs) {
    if (!t) continue;
    bool movable = t->rank == 0 && t->device.type == DeviceType::CPU;
    if (!chosen) {
      chosen = t;
    } else if (chosen->device != t->device) {
      bool chosenMovable = chosen->rank == 0 && chosen->device.type == DeviceType::CPU;
      if (movable) continue;
      if (!chosenMovable) {
        refuse("tensors on " + ir::toString(chosen->device) + " and " + ir::toString(t->device));
      }
      chosen = t;
    }
  }
  return chosen ? chosen->device : Device{};
}

Elementwise elementwise(std::span<const TensorType* const> inputs) {
  Elementwise out;
  out.device = commonDevice(inputs);
  bool first = true;
  for (const TensorType* t : inputs) {
    if (!t) continue;
    out.sizes = first ? Dims(t->sizes()) : broadcast(out.sizes, t->sizes());
    first = false;
  }
  out.strides = resultStrides(inputs, out.sizes);
  return out;
}

const TensorType& converted(Infer& in, const TensorType& t, DType dtype) {
  if (t.dtype == dtype) return t;
  TensorSpec spec;
  spec.dtype = dtype;
  spec.device = t.device;
  spec.sizes = Dims(t.sizes());
  spec.strides = denseStridesLike(t);
  return *in.context().types().tensor(spec);
}

void likeResult(Infer& in, const TensorType& like, DType dtype) {
  TensorSpec spec;
  spec.dtype = dtype;
  spec.device = like.device;
  spec.sizes = Dims(like.sizes());
  spec.strides = denseStridesLike(like);
  in.result(spec);
}

void elementwiseResult(Infer& in, std::span<const TensorType* const> inputs, DType dtype,
                       std::optional<DType> computed) {
  Tensors dense;
  for (size_t i = 0; computed && i < inputs.size(); ++i) {
    const TensorType* t = inputs[i];
    bool moves = t && t->dtype != *computed && t->device.type == DeviceType::CPU && t->rank > 1 && !isRowMajor(*t);
    if (!moves) continue;
    if (dense.empty()) dense = Tensors(inputs);
    dense[i] = &converted(in, *t, *computed);
  }
  Elementwise shape = elementwise(dense.empty() ? inputs : std::span<const TensorType* const>(dense));
  TensorSpec spec;
  spec.dtype = dtype;
  spec.device = shape.device;
  spec.sizes = shape.sizes;
  spec.strides = shape.strides;
  in.result(spec);
}

}  // namespace saker::ops
