// A recording traced once more: its operators are called on tensors of a trace whose sizes are symbols, so that what
// autograd does with them is traced too. Nothing runs.
#pragma once

#include <vector>

#include "capture/trace.h"
#include "runtime/program.h"

namespace saker::aot {

// The trace that is on has the context of the recording, and `inputs` have the types of its arguments. Throws
// NotAheadOfTime for recordings that compute with numbers that are data, or set the .grad of a tensor.
std::vector<at::Tensor> retrace(const runtime::Program& recording, const ir::Graph& graph, tracing::Trace& trace,
                                const std::vector<at::Tensor>& inputs);

}  // namespace saker::aot
