// Operators that cannot wait: what reads data, draws random numbers, or is unknown runs while it is recorded, after a
// flush where it needs pending data. In a capture, which runs nothing, they are refused.
#pragma once

#include "aten/infer.h"
#include "capture/call.h"
#include "capture/trace.h"

namespace saker::tracing {

// Are all tensors of the call on the meta device? Such a call computes sizes and no data, and is no part of a graph:
// programs ask so what an operator would give.
bool isAboutMeta(const Call& call);

bool cannotWait(const Trace& trace, const Call& call, const aten::Inference::Entry* entry);
void runNow(Trace& trace, const Call& call, const aten::Inference::Entry* entry);

// Inference refused: eager's own result or eager's own error; in a capture, a typed refusal.
void onRefusal(Trace& trace, const Call& call, const ops::Refusal& refusal);
[[noreturn]] void refuse(Trace& trace, const Call& call, const ops::Refusal& refusal);

}  // namespace saker::tracing
