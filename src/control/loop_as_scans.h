// While loops, and the way back through them, as operators that have derivatives: scans, of as many steps as the loop
// took.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "capture/closed_bodies.h"

namespace saker::control {

// Computes what a call of these bodies, of kind While, computes: it has run already, and this is its history.
std::vector<at::Tensor> loopAsScan(const tracing::ClosedBodies& bodies, const std::vector<at::Tensor>& operands,
                                   const at::Tensor& history);
// Computes what a call of these bodies, of kind WhileBackward, computes: the loop is run again as one scan, which gives
// what it carried into each step, and another one goes back.
std::vector<at::Tensor> wayBackAsScans(const tracing::ClosedBodies& bodies, const std::vector<at::Tensor>& operands);

}  // namespace saker::control
