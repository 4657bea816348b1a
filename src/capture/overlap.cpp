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
  bool raises = op.cost == ops::Cost::Pointwise || &op == copy;
  for (size_t i = 0; i < call.values.size(); ++i) {
    if (!op.writesArgument(i) || !call.values[i].isTensor()) continue;
    eachTensor(call.values, [&](const at::Tensor& other) {
      if (raises && aten::overlapInPart(call.values[i].toTensor(), other)) raiseOverlap();
      somehow |= aten::mayOverlapShifted(call.values[i].toTensor(), other);
    });
  }
  return somehow;
}

}  // namespace saker::tracing
