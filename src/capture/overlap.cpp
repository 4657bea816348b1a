#include "capture/overlap.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>

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

void raiseOverlap() {
  aten::RunForReal real;
  at::Tensor three = at::empty({3});
  at::assert_no_partial_overlap(three.narrow(0, 0, 2), three.narrow(0, 1, 2));
}

}  // namespace

void checkOverlap(const ops::Operator& op, const Call& call) {
  static const ops::Operator* copy = ops::find("aten::copy_");
  if (!op.writes || (op.cost != ops::Cost::Pointwise && &op != copy)) return;
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (!(op.writes >> i & 1) || !call.values[i].isTensor()) continue;
    eachTensor(call.values, [&](const at::Tensor& other) {
      if (overlapInPart(call.values[i].toTensor(), other)) raiseOverlap();
    });
  }
}

}  // namespace saker::tracing
