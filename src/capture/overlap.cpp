#include "capture/overlap.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>

#include <numeric>

#include "aten/memory.h"
#include "aten/trace_key.h"

namespace saker::tracing {

namespace {

// Elements without gaps, each at an address of its own; of others PyTorch does not ask either.
bool isDense(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return tensor.has_storage() && !impl.has_symbolic_sizes_strides() && tensor.numel() > 0 &&
         impl.is_non_overlapping_and_dense();
}

bool overlapInPart(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_same(b) || !isDense(a) || !isDense(b) || !aten::sameStorage(a, b)) return false;
  auto begin = [](const at::Tensor& t) { return t.storage_offset() * static_cast<int64_t>(t.itemsize()); };
  auto end = [&](const at::Tensor& t) { return begin(t) + t.numel() * static_cast<int64_t>(t.itemsize()); };
  if (begin(a) == begin(b) && end(a) == end(b)) return a.strides() != b.strides();
  return begin(a) < end(b) && begin(b) < end(a);
}

// Reads and writes the same elements in an order that is the kernel's own.
bool overlapSomehow(const at::Tensor& a, const at::Tensor& b) {
  const bool known = a.has_storage() && b.has_storage() && !a.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
                     !b.unsafeGetTensorImpl()->has_symbolic_sizes_strides();
  if (!known || a.is_same(b) || a.numel() == 0 || b.numel() == 0 || !aten::sameStorage(a, b)) return false;
  if (a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() && a.strides() == b.strides()) return false;
  auto last = [](const at::Tensor& t) {
    int64_t at = t.storage_offset();
    for (int64_t d = 0; d < t.dim(); ++d) at += (t.size(d) - 1) * t.stride(d);
    return at;
  };
  if (last(a) < b.storage_offset() || last(b) < a.storage_offset()) return false;
  // Columns that lie between each other: rows as far apart, and a place in them that is another one.
  if (a.sizes() == b.sizes() && a.strides() == b.strides() && a.dim() > 0) {
    int64_t step = a.stride(0);
    for (int64_t d = 0; d < a.dim(); ++d) step = a.size(d) > 1 ? std::gcd(step, a.stride(d)) : step;
    if (step > 1 && (a.storage_offset() - b.storage_offset()) % step != 0) return false;
  }
  return true;
}

void raiseOverlap() {
  aten::RunForReal real;
  at::Tensor three = at::empty({3});
  at::assert_no_partial_overlap(three.narrow(0, 0, 2), three.narrow(0, 1, 2));
}

}  // namespace

bool checkOverlap(const ops::Operator& op, const Call& call) {
  static const ops::Operator* copy = ops::find("aten::copy_");
  bool somehow = false;
  if (!op.writes || op.cost == ops::Cost::View) return somehow;
  bool raises = op.cost == ops::Cost::Pointwise || &op == copy;
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (!(op.writes >> i & 1) || !call.values[i].isTensor()) continue;
    eachTensor(call.values, [&](const at::Tensor& other) {
      if (raises && overlapInPart(call.values[i].toTensor(), other)) raiseOverlap();
      somehow |= overlapSomehow(call.values[i].toTensor(), other);
    });
  }
  return somehow;
}

}  // namespace saker::tracing
