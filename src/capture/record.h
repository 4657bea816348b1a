// The boxed fallback on the trace's dispatch key: every operator that a traced program calls arrives here.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "capture/call.h"

namespace saker::tracing {

class Trace;

void recordCall(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Records a call that the trace itself makes. Its lock is held, and RunForReal is on.
void record(Trace& trace, const Call& call);

}  // namespace saker::tracing
