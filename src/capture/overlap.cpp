#include "capture/overlap.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>

#include "aten/memory.h"
#include "aten/trace_key.h"

namespace saker::tracing {

namespace {

void raiseOverlap() {
  aten::RunForReal real;
  at::Tensor three = at::empty({3});
  at::assert_no_partial_overlap(three.narrow(0, 0, 2), three.narrow(0, 1, 2));
}

}  // namespace

bool checkOverlap(const ops::Operator& op, const Call& call) {
  using Cost = ops::Cost;
  static const ops::Operator* copy = ops::find("aten::copy_");
  bool somehow = false;
  if (!op.writes || op.cost == Cost::View) return somehow;
  bool elementwise = op.cost == Cost::Pointwise || &op == copy;
  // These read other elements than the one that they write.
  bool moves = !elementwise && (op.cost == Cost::Indexing || op.cost == Cost::Matmul || op.cost == Cost::Convolution);
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (!op.writesArgument(i)) continue;
    bool list = !call.values[i].isTensor();
    size_t number = 0;
    eachTensor(call.values.subspan(i, 1), [&](const at::Tensor& written) {
      for (size_t k = 0; k < call.values.size(); ++k) {
        // Operators on lists go through them side by side, one after the other.
        size_t beside = 0;
        eachTensor(call.values.subspan(k, 1), [&](const at::Tensor& other) {
          if (list && !call.values[k].isTensor() && beside++ != number) return;
          if ((elementwise || list) && aten::overlapInPart(written, other)) raiseOverlap();
          if (list) return;
          somehow |= aten::mayOverlapShifted(written, other) || (k != i && moves && written.is_same(other));
        });
      }
      ++number;
    });
  }
  return somehow;
}

}  // namespace saker::tracing
