// Asks autograd for gradients while a trace records what it computes.
#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/variable.h>

#include <vector>

#include "aot/joint.h"
#include "aot/version_checks.h"

namespace saker::aot {

// Of `wanted`, where these tangents are given to `roots`. Throws NotAheadOfTime where the backward cannot be captured.
torch::autograd::variable_list askAutograd(const tracing::Host& host, const Leniently& leniently, SavedReads& reads,
                                           tracing::Trace& trace, const std::vector<torch::autograd::Edge>& roots,
                                           const torch::autograd::variable_list& tangents,
                                           const std::vector<torch::autograd::Edge>& wanted);

}  // namespace saker::aot
