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
  static const ops::Operator* copy = ops::find("aten::copy_");
  bool somehow = false;
  if (!op.writes || op.cost == ops::Cost::View) return somehow;
  bool elementwise = op.cost == ops::Cost::Pointwise || &op == copy || op.qualified.starts_with("aten::_foreach_");
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (!op.writesArgument(i)) continue;
    bool raises = elementwise && call.values[i].isTensor();
    eachTensor(call.values.subspan(i, 1), [&](const at::Tensor& written) {
      for (size_t k = 0; k < call.values.size(); ++k) {
        eachTensor(call.values.subspan(k, 1), [&](const at::Tensor& other) {
          if (raises && aten::overlapInPart(written, other)) raiseOverlap();
          somehow |= aten::mayOverlapShifted(written, other) || (k != i && !elementwise && written.is_same(other));
        });
      }
    });
  }
  return somehow;
}

}  // namespace saker::tracing
