// Derivatives of operators with bodies. A body's own derivative is a graph that autograd makes on stand-ins; the
// operator's is another operator with bodies, so that what autograd runs, records and differentiates again is the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "capture/closed_bodies.h"

namespace saker::control {

using tracing::ClosedBodies;
using Bodies = c10::intrusive_ptr<ClosedBodies>;

// Runs something so that PyTorch's formulas ask no tensor for its data, where they have another way. A host may know
// how.
using Leniently = void (*)(const std::function<void()>& run);
void setLeniently(Leniently leniently);

// Which operands and results autograd can follow, by their dtype.
bool isDifferentiable(const at::Tensor& tensor);

// The same bodies, whose derivative needs nothing but operands and results: a loop that gives what it carried before
// each step as well. What was asked for are the first results.
Bodies withSaved(const Bodies& bodies);
// Does its derivative find everything among operands and results?
bool savesItself(const ClosedBodies& bodies);
// How many of the last results it needs.
size_t savedResults(const ClosedBodies& bodies);

// Gradients of the operands that are wanted, of gradients of results, some of which are undefined. `saved` are the last
// results of the call. `byRunning`: no operator takes such tangents; the bodies are run again, and autograd follows.
std::vector<at::Tensor> gradients(const Bodies& bodies, const std::vector<at::Tensor>& operands,
                                  const std::vector<at::Tensor>& saved, const std::vector<at::Tensor>& tangents,
                                  const std::vector<bool>& wanted, bool byRunning = false);

}  // namespace saker::control
