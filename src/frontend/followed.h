// What eager mode's autograd has to follow itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>

#include "capture/reasons.h"
#include "runtime/program.h"

namespace saker::frontend {

// May the caller see that another node stands for the operators of this program, beyond what it is called? Where an
// argument that requires grad is written (its hooks and its history), where such arguments overlap (each has a gradient
// of its own), and where an operator of the user's has a gradient written in Python (which runs in each backward).
// Also where inference mode is switched while it runs.
std::optional<Stop> whyFollowed(const runtime::Program& program, std::span<const at::Tensor> inputs);

}  // namespace saker::frontend
